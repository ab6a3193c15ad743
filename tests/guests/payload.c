/* A guest as C programs are built: NVIDIA's own headers, which load the tool and fill in their slots.
   A range of a library that is popped through the payload extension, one with a payload as NCCL's
   have it, and three ranges of the program. */
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    uint64_t comm;
    size_t bytes;
    int op;
} all_reduce;

#define STATIC_IDS (1 << 24)

static void registered(nvtxDomainHandle_t domain)
{
    static const nvtxPayloadEnum_t operations[] = {{"Sum", 0, 0}, {"Max", 2, 0}};
    static const nvtxPayloadSchemaEntry_t entries[] = {
        {0, NVTX_PAYLOAD_ENTRY_TYPE_UINT64, "NCCL communicator ID", NULL, 0,
         offsetof(all_reduce, comm), NULL, NULL},
        {0, NVTX_PAYLOAD_ENTRY_TYPE_SIZE, "Message size [bytes]", NULL, 0,
         offsetof(all_reduce, bytes), NULL, NULL},
        {0, STATIC_IDS + 11, "Reduction operation", NULL, 0, offsetof(all_reduce, op), NULL, NULL},
    };
    nvtxPayloadEnumAttr_t names;
    nvtxPayloadSchemaAttr_t schema;
    memset(&names, 0, sizeof names);
    /* Entries, their number, size and identifier: the names of these bits differ between versions. */
    names.fieldMask = 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5;
    names.entries = operations;
    names.numEntries = 2;
    names.sizeOfEnum = sizeof(int);
    names.schemaId = STATIC_IDS + 11;
    nvtxPayloadEnumRegister(domain, &names);
    memset(&schema, 0, sizeof schema);
    /* Type, entries, their number, static size and identifier. */
    schema.fieldMask = 1 << 2 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 8;
    schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
    schema.entries = entries;
    schema.numEntries = 3;
    schema.schemaId = STATIC_IDS + 5;
    nvtxPayloadSchemaRegister(domain, &schema);
}

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("NCCL");
    nvtxEventAttributes_t range;
    all_reduce parameters = {0xfeed, 4096, 2};
    nvtxPayloadData_t payload = {STATIC_IDS + 5, sizeof parameters, &parameters};
    int step;

    memset(&range, 0, sizeof range);
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = "ncclCommInitRank";
    nvtxDomainRangePushEx(domain, &range);
    registered(domain);
    printf("%d\n", nvtxRangePopPayload(domain, &payload, 1));
    for (step = 0; step < 3; step++) {
        nvtxRangePushA("decode");
        range.message.ascii = "ncclAllReduce";
        range.payloadType = NVTX_PAYLOAD_TYPE_EXT;
        range.reserved0 = 1;
        range.payload.ullValue = (uint64_t)(size_t)&payload;
        nvtxDomainRangePushEx(domain, &range);
        nvtxDomainRangePop(domain);
        nvtxRangePop();
    }
    return 0;
}
