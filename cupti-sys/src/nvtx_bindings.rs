//! The ABI between NVTX clients and a tool, from the NVTX headers of CUDA 13.0: event
//! attributes, export tables, callback ids and the types of the callbacks.
//!
//! Written by `cupti-sys/regenerate`: do not edit.

pub const NVTX_EXT_PAYLOAD_COMPATID: u32 = 260;
pub const NVTX_EXT_PAYLOAD_MODULEID: u32 = 2;
pub const NVTX_PAYLOAD_ENTRY_FLAG_POINTER: u32 = 2;
pub const NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE: u32 = 4;
pub const NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE: u32 = 8;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE: u32 = 16;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED: u32 = 32;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX: u32 = 48;
pub const NVTX_PAYLOAD_ENTRY_FLAG_HIDE: u32 = 512;
pub const NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE: u32 = 1024;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CHAR: u32 = 1;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UCHAR: u32 = 2;
pub const NVTX_PAYLOAD_ENTRY_TYPE_SHORT: u32 = 3;
pub const NVTX_PAYLOAD_ENTRY_TYPE_USHORT: u32 = 4;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT: u32 = 5;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT: u32 = 6;
pub const NVTX_PAYLOAD_ENTRY_TYPE_LONG: u32 = 7;
pub const NVTX_PAYLOAD_ENTRY_TYPE_ULONG: u32 = 8;
pub const NVTX_PAYLOAD_ENTRY_TYPE_LONGLONG: u32 = 9;
pub const NVTX_PAYLOAD_ENTRY_TYPE_ULONGLONG: u32 = 10;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT8: u32 = 11;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT8: u32 = 12;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT16: u32 = 13;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT16: u32 = 14;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT32: u32 = 15;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT32: u32 = 16;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT64: u32 = 17;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT64: u32 = 18;
pub const NVTX_PAYLOAD_ENTRY_TYPE_FLOAT: u32 = 19;
pub const NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE: u32 = 20;
pub const NVTX_PAYLOAD_ENTRY_TYPE_LONGDOUBLE: u32 = 21;
pub const NVTX_PAYLOAD_ENTRY_TYPE_SIZE: u32 = 22;
pub const NVTX_PAYLOAD_ENTRY_TYPE_ADDRESS: u32 = 23;
pub const NVTX_PAYLOAD_ENTRY_TYPE_WCHAR: u32 = 24;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CHAR8: u32 = 25;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CHAR16: u32 = 26;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CHAR32: u32 = 27;
pub const NVTX_PAYLOAD_ENTRY_TYPE_BYTE: u32 = 32;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INT128: u32 = 33;
pub const NVTX_PAYLOAD_ENTRY_TYPE_UINT128: u32 = 34;
pub const NVTX_PAYLOAD_ENTRY_TYPE_FLOAT16: u32 = 42;
pub const NVTX_PAYLOAD_ENTRY_TYPE_FLOAT32: u32 = 43;
pub const NVTX_PAYLOAD_ENTRY_TYPE_FLOAT64: u32 = 44;
pub const NVTX_PAYLOAD_ENTRY_TYPE_FLOAT128: u32 = 45;
pub const NVTX_PAYLOAD_ENTRY_TYPE_BF16: u32 = 50;
pub const NVTX_PAYLOAD_ENTRY_TYPE_TF32: u32 = 52;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CATEGORY: u32 = 68;
pub const NVTX_PAYLOAD_ENTRY_TYPE_COLOR_ARGB: u32 = 69;
pub const NVTX_PAYLOAD_ENTRY_TYPE_SCOPE_ID: u32 = 70;
pub const NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT32: u32 = 71;
pub const NVTX_PAYLOAD_ENTRY_TYPE_PID_UINT64: u32 = 72;
pub const NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT32: u32 = 73;
pub const NVTX_PAYLOAD_ENTRY_TYPE_TID_UINT64: u32 = 74;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CSTRING: u32 = 75;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF8: u32 = 76;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF16: u32 = 77;
pub const NVTX_PAYLOAD_ENTRY_TYPE_CSTRING_UTF32: u32 = 78;
pub const NVTX_PAYLOAD_ENTRY_TYPE_NVTX_REGISTERED_STRING_HANDLE: u32 = 80;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_STATIC: u32 = 1;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC: u32 = 2;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_UNION: u32 = 3;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME: u32 = 2;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE: u32 = 4;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES: u32 = 16;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES: u32 = 32;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE: u32 = 64;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT: u32 = 128;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID: u32 = 256;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES: u32 = 4;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES: u32 = 8;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE: u32 = 16;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID: u32 = 32;
pub const NVTX3EXT_CBID_nvtxPayloadSchemaRegister: u32 = 0;
pub const NVTX3EXT_CBID_nvtxPayloadEnumRegister: u32 = 1;
pub const NVTX3EXT_CBID_nvtxMarkPayload: u32 = 2;
pub const NVTX3EXT_CBID_nvtxRangePushPayload: u32 = 3;
pub const NVTX3EXT_CBID_nvtxRangePopPayload: u32 = 4;
pub const NVTX3EXT_CBID_nvtxRangeStartPayload: u32 = 5;
pub const NVTX3EXT_CBID_nvtxRangeEndPayload: u32 = 6;
pub const NVTX3EXT_CBID_nvtxDomainIsEnabled: u32 = 7;
pub type wchar_t = ::std::os::raw::c_int;
pub type nvtxRangeId_t = u64;
#[repr(C)]
#[derive(Debug)]
pub struct nvtxDomainRegistration_st {
    _unused: [u8; 0],
}
pub type nvtxDomainRegistration = nvtxDomainRegistration_st;
pub type nvtxDomainHandle_t = *mut nvtxDomainRegistration;
#[repr(C)]
#[derive(Debug)]
pub struct nvtxStringRegistration_st {
    _unused: [u8; 0],
}
pub type nvtxStringRegistration = nvtxStringRegistration_st;
pub type nvtxStringHandle_t = *mut nvtxStringRegistration;
pub const NVTX_MESSAGE_UNKNOWN: nvtxMessageType_t = 0;
pub const NVTX_MESSAGE_TYPE_ASCII: nvtxMessageType_t = 1;
pub const NVTX_MESSAGE_TYPE_UNICODE: nvtxMessageType_t = 2;
pub const NVTX_MESSAGE_TYPE_REGISTERED: nvtxMessageType_t = 3;
pub type nvtxMessageType_t = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvtxMessageValue_t {
    pub ascii: *const ::std::os::raw::c_char,
    pub unicode: *const wchar_t,
    pub registered: nvtxStringHandle_t,
}
layout! { nvtxMessageValue_t: 8 align 8 {
    ascii @ 0, unicode @ 0, registered @ 0,
} }
pub const NVTX_PAYLOAD_TYPE_UNSIGNED_INT64: nvtxPayloadType_t = 1;
pub const NVTX_PAYLOAD_TYPE_INT64: nvtxPayloadType_t = 2;
pub const NVTX_PAYLOAD_TYPE_DOUBLE: nvtxPayloadType_t = 3;
pub const NVTX_PAYLOAD_TYPE_UNSIGNED_INT32: nvtxPayloadType_t = 4;
pub const NVTX_PAYLOAD_TYPE_INT32: nvtxPayloadType_t = 5;
pub const NVTX_PAYLOAD_TYPE_FLOAT: nvtxPayloadType_t = 6;
pub type nvtxPayloadType_t = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxEventAttributes_v2 {
    pub version: u16,
    pub size: u16,
    pub category: u32,
    pub colorType: i32,
    pub color: u32,
    pub payloadType: i32,
    pub reserved0: i32,
    pub payload: nvtxEventAttributes_v2_payload_t,
    pub messageType: i32,
    pub message: nvtxMessageValue_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvtxEventAttributes_v2_payload_t {
    pub ullValue: u64,
    pub llValue: i64,
    pub dValue: f64,
    pub uiValue: u32,
    pub iValue: i32,
    pub fValue: f32,
}
layout! { nvtxEventAttributes_v2_payload_t: 8 align 8 {
    ullValue @ 0, llValue @ 0, dValue @ 0, uiValue @ 0, iValue @ 0, fValue @ 0,
} }
layout! { nvtxEventAttributes_v2: 48 align 8 {
    version @ 0, size @ 2, category @ 4, colorType @ 8, color @ 12, payloadType @ 16,
    reserved0 @ 20, payload @ 24, messageType @ 32, message @ 40,
} }
pub type nvtxEventAttributes_t = nvtxEventAttributes_v2;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxResourceAttributes_v0 {
    pub version: u16,
    pub size: u16,
    pub identifierType: i32,
    pub identifier: nvtxResourceAttributes_v0_identifier_t,
    pub messageType: i32,
    pub message: nvtxMessageValue_t,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union nvtxResourceAttributes_v0_identifier_t {
    pub pValue: *const ::std::os::raw::c_void,
    pub ullValue: u64,
}
layout! { nvtxResourceAttributes_v0_identifier_t: 8 align 8 {
    pValue @ 0, ullValue @ 0,
} }
layout! { nvtxResourceAttributes_v0: 32 align 8 {
    version @ 0, size @ 2, identifierType @ 4, identifier @ 8, messageType @ 16, message @ 24,
} }
pub type nvtxResourceAttributes_t = nvtxResourceAttributes_v0;
pub type nvtxMarkEx_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(eventAttrib: *const nvtxEventAttributes_t)>;
pub type nvtxMarkA_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(message: *const ::std::os::raw::c_char)>;
pub type nvtxMarkW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(message: *const wchar_t)>;
pub type nvtxRangeStartEx_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(eventAttrib: *const nvtxEventAttributes_t) -> nvtxRangeId_t,
>;
pub type nvtxRangeStartA_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(message: *const ::std::os::raw::c_char) -> nvtxRangeId_t,
>;
pub type nvtxRangeStartW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(message: *const wchar_t) -> nvtxRangeId_t>;
pub type nvtxRangeEnd_impl_fntype = ::std::option::Option<unsafe extern "C" fn(id: nvtxRangeId_t)>;
pub type nvtxRangePushEx_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(eventAttrib: *const nvtxEventAttributes_t) -> ::std::os::raw::c_int,
>;
pub type nvtxRangePushA_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(message: *const ::std::os::raw::c_char) -> ::std::os::raw::c_int,
>;
pub type nvtxRangePushW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(message: *const wchar_t) -> ::std::os::raw::c_int>;
pub type nvtxRangePop_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn() -> ::std::os::raw::c_int>;
pub type nvtxDomainMarkEx_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(domain: nvtxDomainHandle_t, eventAttrib: *const nvtxEventAttributes_t),
>;
pub type nvtxDomainRangeStartEx_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        domain: nvtxDomainHandle_t,
        eventAttrib: *const nvtxEventAttributes_t,
    ) -> nvtxRangeId_t,
>;
pub type nvtxDomainRangeEnd_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(domain: nvtxDomainHandle_t, id: nvtxRangeId_t)>;
pub type nvtxDomainRangePushEx_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        domain: nvtxDomainHandle_t,
        eventAttrib: *const nvtxEventAttributes_t,
    ) -> ::std::os::raw::c_int,
>;
pub type nvtxDomainRangePop_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(domain: nvtxDomainHandle_t) -> ::std::os::raw::c_int,
>;
pub type nvtxDomainRegisterStringA_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        domain: nvtxDomainHandle_t,
        string: *const ::std::os::raw::c_char,
    ) -> nvtxStringHandle_t,
>;
pub type nvtxDomainRegisterStringW_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(domain: nvtxDomainHandle_t, string: *const wchar_t) -> nvtxStringHandle_t,
>;
pub type nvtxDomainCreateA_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(message: *const ::std::os::raw::c_char) -> nvtxDomainHandle_t,
>;
pub type nvtxDomainCreateW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(message: *const wchar_t) -> nvtxDomainHandle_t>;
pub const NVTX_CB_MODULE_CORE: NvtxCallbackModule = 1;
pub const NVTX_CB_MODULE_CORE2: NvtxCallbackModule = 5;
pub const NVTX_CB_MODULE_SIZE: NvtxCallbackModule = 7;
pub type NvtxCallbackModule = ::std::os::raw::c_uint;
pub const NVTX_CBID_CORE_MarkEx: NvtxCallbackIdCore = 1;
pub const NVTX_CBID_CORE_MarkA: NvtxCallbackIdCore = 2;
pub const NVTX_CBID_CORE_MarkW: NvtxCallbackIdCore = 3;
pub const NVTX_CBID_CORE_RangeStartEx: NvtxCallbackIdCore = 4;
pub const NVTX_CBID_CORE_RangeStartA: NvtxCallbackIdCore = 5;
pub const NVTX_CBID_CORE_RangeStartW: NvtxCallbackIdCore = 6;
pub const NVTX_CBID_CORE_RangeEnd: NvtxCallbackIdCore = 7;
pub const NVTX_CBID_CORE_RangePushEx: NvtxCallbackIdCore = 8;
pub const NVTX_CBID_CORE_RangePushA: NvtxCallbackIdCore = 9;
pub const NVTX_CBID_CORE_RangePushW: NvtxCallbackIdCore = 10;
pub const NVTX_CBID_CORE_RangePop: NvtxCallbackIdCore = 11;
pub const NVTX_CBID_CORE_SIZE: NvtxCallbackIdCore = 16;
pub type NvtxCallbackIdCore = ::std::os::raw::c_uint;
pub const NVTX_CBID_CORE2_DomainMarkEx: NvtxCallbackIdCore2 = 1;
pub const NVTX_CBID_CORE2_DomainRangeStartEx: NvtxCallbackIdCore2 = 2;
pub const NVTX_CBID_CORE2_DomainRangeEnd: NvtxCallbackIdCore2 = 3;
pub const NVTX_CBID_CORE2_DomainRangePushEx: NvtxCallbackIdCore2 = 4;
pub const NVTX_CBID_CORE2_DomainRangePop: NvtxCallbackIdCore2 = 5;
pub const NVTX_CBID_CORE2_DomainRegisterStringA: NvtxCallbackIdCore2 = 10;
pub const NVTX_CBID_CORE2_DomainRegisterStringW: NvtxCallbackIdCore2 = 11;
pub const NVTX_CBID_CORE2_DomainCreateA: NvtxCallbackIdCore2 = 12;
pub const NVTX_CBID_CORE2_DomainCreateW: NvtxCallbackIdCore2 = 13;
pub const NVTX_CBID_CORE2_SIZE: NvtxCallbackIdCore2 = 16;
pub type NvtxCallbackIdCore2 = ::std::os::raw::c_uint;
pub const NVTX_ETID_CALLBACKS: NvtxExportTableID = 1;
pub type NvtxExportTableID = ::std::os::raw::c_uint;
pub type NvtxFunctionPointer = ::std::option::Option<unsafe extern "C" fn()>;
pub type NvtxFunctionTable = *mut *mut NvtxFunctionPointer;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NvtxExportTableCallbacks {
    pub struct_size: usize,
    pub GetModuleFunctionTable: ::std::option::Option<
        unsafe extern "C" fn(
            callback_module: NvtxCallbackModule,
            out_table: *mut NvtxFunctionTable,
            out_size: *mut ::std::os::raw::c_uint,
        ) -> ::std::os::raw::c_int,
    >,
}
layout! { NvtxExportTableCallbacks: 16 align 8 {
    struct_size @ 0, GetModuleFunctionTable @ 8,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NvtxExportTableVersionInfo {
    pub struct_size: usize,
    pub version: u32,
    pub reserved0: u32,
    pub SetInjectionNvtxVersion: ::std::option::Option<unsafe extern "C" fn(version: u32)>,
}
layout! { NvtxExportTableVersionInfo: 24 align 8 {
    struct_size @ 0, version @ 8, reserved0 @ 12, SetInjectionNvtxVersion @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadData_v1 {
    pub schemaId: u64,
    pub size: usize,
    pub payload: *const ::std::os::raw::c_void,
}
layout! { nvtxPayloadData_v1: 24 align 8 {
    schemaId @ 0, size @ 8, payload @ 16,
} }
pub type nvtxPayloadData_t = nvtxPayloadData_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxSemanticsHeader_v1 {
    pub structSize: u32,
    pub semanticId: u16,
    pub version: u16,
    pub next: *const nvtxSemanticsHeader_v1,
}
layout! { nvtxSemanticsHeader_v1: 16 align 8 {
    structSize @ 0, semanticId @ 4, version @ 6, next @ 8,
} }
pub type nvtxSemanticsHeader_t = nvtxSemanticsHeader_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadSchemaEntry_v1 {
    pub flags: u64,
    pub type_: u64,
    pub name: *const ::std::os::raw::c_char,
    pub description: *const ::std::os::raw::c_char,
    pub arrayOrUnionDetail: u64,
    pub offset: u64,
    pub semantics: *const nvtxSemanticsHeader_t,
    pub reserved: *const ::std::os::raw::c_void,
}
layout! { nvtxPayloadSchemaEntry_v1: 64 align 8 {
    flags @ 0, type_ @ 8, name @ 16, description @ 24, arrayOrUnionDetail @ 32, offset @ 40,
    semantics @ 48, reserved @ 56,
} }
pub type nvtxPayloadSchemaEntry_t = nvtxPayloadSchemaEntry_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadSchemaAttr_v1 {
    pub fieldMask: u64,
    pub name: *const ::std::os::raw::c_char,
    pub type_: u64,
    pub flags: u64,
    pub entries: *const nvtxPayloadSchemaEntry_t,
    pub numEntries: usize,
    pub payloadStaticSize: usize,
    pub packAlign: usize,
    pub schemaId: u64,
    pub extension: *mut ::std::os::raw::c_void,
}
layout! { nvtxPayloadSchemaAttr_v1: 80 align 8 {
    fieldMask @ 0, name @ 8, type_ @ 16, flags @ 24, entries @ 32, numEntries @ 40,
    payloadStaticSize @ 48, packAlign @ 56, schemaId @ 64, extension @ 72,
} }
pub type nvtxPayloadSchemaAttr_t = nvtxPayloadSchemaAttr_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadEnum_v1 {
    pub name: *const ::std::os::raw::c_char,
    pub value: u64,
    pub isFlag: i8,
}
layout! { nvtxPayloadEnum_v1: 24 align 8 {
    name @ 0, value @ 8, isFlag @ 16,
} }
pub type nvtxPayloadEnum_t = nvtxPayloadEnum_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadEnumAttr_v1 {
    pub fieldMask: u64,
    pub name: *const ::std::os::raw::c_char,
    pub entries: *const nvtxPayloadEnum_t,
    pub numEntries: usize,
    pub sizeOfEnum: usize,
    pub schemaId: u64,
    pub extension: *mut ::std::os::raw::c_void,
}
layout! { nvtxPayloadEnumAttr_v1: 56 align 8 {
    fieldMask @ 0, name @ 8, entries @ 16, numEntries @ 24, sizeOfEnum @ 32, schemaId @ 40,
    extension @ 48,
} }
pub type nvtxPayloadEnumAttr_t = nvtxPayloadEnumAttr_v1;
pub type NvtxExtGetExportFunction_t =
    ::std::option::Option<unsafe extern "C" fn(exportFunctionId: u32) -> isize>;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxExtModuleSegment_t {
    pub segmentId: usize,
    pub slotCount: usize,
    pub functionSlots: *mut isize,
}
layout! { nvtxExtModuleSegment_t: 24 align 8 {
    segmentId @ 0, slotCount @ 8, functionSlots @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxExtModuleInfo_t {
    pub nvtxVer: u16,
    pub structSize: u16,
    pub moduleId: u16,
    pub compatId: u16,
    pub segmentsCount: usize,
    pub segments: *mut nvtxExtModuleSegment_t,
    pub getExportFunction: NvtxExtGetExportFunction_t,
    pub extInfo: *const ::std::os::raw::c_void,
}
layout! { nvtxExtModuleInfo_t: 40 align 8 {
    nvtxVer @ 0, structSize @ 2, moduleId @ 4, compatId @ 6, segmentsCount @ 8, segments @ 16,
    getExportFunction @ 24, extInfo @ 32,
} }
pub const NVTX_PAYLOAD_TYPE_EXTENDED: i32 = -541261815;
pub type nvtxDomainIsEnabled_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(arg1: nvtxDomainHandle_t) -> u8>;
pub type nvtxMarkPayload_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(arg1: nvtxDomainHandle_t, arg2: *const nvtxPayloadData_t, arg3: usize),
>;
pub type nvtxPayloadEnumRegister_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(arg1: nvtxDomainHandle_t, arg2: *const nvtxPayloadEnumAttr_t) -> u64,
>;
pub type nvtxPayloadSchemaRegister_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(arg1: nvtxDomainHandle_t, arg2: *const nvtxPayloadSchemaAttr_t) -> u64,
>;
pub type nvtxRangeEndPayload_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: nvtxDomainHandle_t,
        arg2: nvtxRangeId_t,
        arg3: *const nvtxPayloadData_t,
        arg4: usize,
    ),
>;
pub type nvtxRangePopPayload_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: nvtxDomainHandle_t,
        arg2: *const nvtxPayloadData_t,
        arg3: usize,
    ) -> ::std::os::raw::c_int,
>;
pub type nvtxRangePushPayload_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: nvtxDomainHandle_t,
        arg2: *const nvtxPayloadData_t,
        arg3: usize,
    ) -> ::std::os::raw::c_int,
>;
pub type nvtxRangeStartPayload_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: nvtxDomainHandle_t,
        arg2: *const nvtxPayloadData_t,
        arg3: usize,
    ) -> nvtxRangeId_t,
>;
