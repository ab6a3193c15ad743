// The types of the CUDA driver that CUPTI's headers name, so that floor.cpp builds without a CUDA toolkit.
// No function is declared: whoever calls the driver looks its functions up.
#pragma once

#include <stddef.h>

typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUevent_st *CUevent;
typedef struct { char bytes[16]; } CUuuid;
// Enumerations, of which only the size matters, and a union behind a pointer.
typedef int CUdevice_attribute, CUgraphNodeType, CUstreamAttrID;
typedef union CUstreamAttrValue_union CUstreamAttrValue;
typedef enum { CU_ACCESS_PROPERTY_NORMAL, CU_ACCESS_PROPERTY_STREAMING, CU_ACCESS_PROPERTY_PERSISTING } CUaccessProperty;
typedef struct {
  void *base_ptr;
  size_t num_bytes;
  float hitRatio;
  CUaccessProperty hitProp, missProp;
} CUaccessPolicyWindow;
