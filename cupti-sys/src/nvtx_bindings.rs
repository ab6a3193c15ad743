//! The ABI between NVTX clients and a tool, from the NVTX headers of CUDA 13.0: event
//! attributes, export tables, callback ids and the types of the callbacks.
//!
//! Written by `cupti-sys/regenerate`: do not edit.

pub const NVTX_VERSION: u32 = 3;
pub const NVTX_EXT_PAYLOAD_COMPATID: u32 = 260;
pub const NVTX_EXT_PAYLOAD_MODULEID: u32 = 2;
pub const NVTX_PAYLOAD_ENTRY_FLAG_UNUSED: u32 = 0;
pub const NVTX_PAYLOAD_ENTRY_FLAG_POINTER: u32 = 2;
pub const NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_BASE: u32 = 4;
pub const NVTX_PAYLOAD_ENTRY_FLAG_OFFSET_FROM_HERE: u32 = 8;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_FIXED_SIZE: u32 = 16;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_ZERO_TERMINATED: u32 = 32;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_INDEX: u32 = 48;
pub const NVTX_PAYLOAD_ENTRY_FLAG_ARRAY_LENGTH_PAYLOAD_INDEX: u32 = 64;
pub const NVTX_PAYLOAD_ENTRY_FLAG_DEEP_COPY: u32 = 256;
pub const NVTX_PAYLOAD_ENTRY_FLAG_HIDE: u32 = 512;
pub const NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE: u32 = 1024;
pub const NVTX_PAYLOAD_ENTRY_FLAG_TIMESTAMP: u32 = 2048;
pub const NVTX_PAYLOAD_ENTRY_FLAG_RANGE_BEGIN: u32 = 4096;
pub const NVTX_PAYLOAD_ENTRY_FLAG_RANGE_END: u32 = 8192;
pub const NVTX_PAYLOAD_ENTRY_FLAG_MARK: u32 = 12288;
pub const NVTX_PAYLOAD_ENTRY_FLAG_COUNTER: u32 = 16384;
pub const NVTX_PAYLOAD_ENTRY_FLAG_IS_ARRAY: u32 = 48;
pub const NVTX_PAYLOAD_ENTRY_TYPE_INVALID: u32 = 0;
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
pub const NVTX_PAYLOAD_ENTRY_TYPE_INFO_ARRAY_SIZE: u32 = 28;
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
pub const NVTX_PAYLOAD_ENTRY_TYPE_UNION_SELECTOR: u32 = 100;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_INVALID: u32 = 0;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_STATIC: u32 = 1;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_DYNAMIC: u32 = 2;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_UNION: u32 = 3;
pub const NVTX_PAYLOAD_SCHEMA_TYPE_UNION_WITH_INTERNAL_SELECTOR: u32 = 4;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME: u32 = 2;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE: u32 = 4;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_FLAGS: u32 = 8;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES: u32 = 16;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES: u32 = 32;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE: u32 = 64;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ALIGNMENT: u32 = 128;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID: u32 = 256;
pub const NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_EXTENSION: u32 = 512;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_NAME: u32 = 2;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES: u32 = 4;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES: u32 = 8;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE: u32 = 16;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID: u32 = 32;
pub const NVTX_PAYLOAD_ENUM_ATTR_FIELD_EXTENSION: u32 = 64;
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
pub const NVTX_COLOR_UNKNOWN: nvtxColorType_t = 0;
pub const NVTX_COLOR_ARGB: nvtxColorType_t = 1;
pub type nvtxColorType_t = ::std::os::raw::c_uint;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxMessageValue_t"][::std::mem::size_of::<nvtxMessageValue_t>() - 8usize];
    ["Alignment of nvtxMessageValue_t"][::std::mem::align_of::<nvtxMessageValue_t>() - 8usize];
    ["Offset of field: nvtxMessageValue_t::ascii"]
        [::std::mem::offset_of!(nvtxMessageValue_t, ascii) - 0usize];
    ["Offset of field: nvtxMessageValue_t::unicode"]
        [::std::mem::offset_of!(nvtxMessageValue_t, unicode) - 0usize];
    ["Offset of field: nvtxMessageValue_t::registered"]
        [::std::mem::offset_of!(nvtxMessageValue_t, registered) - 0usize];
};
pub const NVTX_PAYLOAD_UNKNOWN: nvtxPayloadType_t = 0;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxEventAttributes_v2_payload_t"]
        [::std::mem::size_of::<nvtxEventAttributes_v2_payload_t>() - 8usize];
    ["Alignment of nvtxEventAttributes_v2_payload_t"]
        [::std::mem::align_of::<nvtxEventAttributes_v2_payload_t>() - 8usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::ullValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, ullValue) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::llValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, llValue) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::dValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, dValue) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::uiValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, uiValue) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::iValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, iValue) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2_payload_t::fValue"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2_payload_t, fValue) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxEventAttributes_v2"][::std::mem::size_of::<nvtxEventAttributes_v2>() - 48usize];
    ["Alignment of nvtxEventAttributes_v2"]
        [::std::mem::align_of::<nvtxEventAttributes_v2>() - 8usize];
    ["Offset of field: nvtxEventAttributes_v2::version"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, version) - 0usize];
    ["Offset of field: nvtxEventAttributes_v2::size"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, size) - 2usize];
    ["Offset of field: nvtxEventAttributes_v2::category"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, category) - 4usize];
    ["Offset of field: nvtxEventAttributes_v2::colorType"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, colorType) - 8usize];
    ["Offset of field: nvtxEventAttributes_v2::color"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, color) - 12usize];
    ["Offset of field: nvtxEventAttributes_v2::payloadType"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, payloadType) - 16usize];
    ["Offset of field: nvtxEventAttributes_v2::reserved0"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, reserved0) - 20usize];
    ["Offset of field: nvtxEventAttributes_v2::payload"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, payload) - 24usize];
    ["Offset of field: nvtxEventAttributes_v2::messageType"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, messageType) - 32usize];
    ["Offset of field: nvtxEventAttributes_v2::message"]
        [::std::mem::offset_of!(nvtxEventAttributes_v2, message) - 40usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxResourceAttributes_v0_identifier_t"]
        [::std::mem::size_of::<nvtxResourceAttributes_v0_identifier_t>() - 8usize];
    ["Alignment of nvtxResourceAttributes_v0_identifier_t"]
        [::std::mem::align_of::<nvtxResourceAttributes_v0_identifier_t>() - 8usize];
    ["Offset of field: nvtxResourceAttributes_v0_identifier_t::pValue"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0_identifier_t, pValue) - 0usize];
    ["Offset of field: nvtxResourceAttributes_v0_identifier_t::ullValue"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0_identifier_t, ullValue) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxResourceAttributes_v0"]
        [::std::mem::size_of::<nvtxResourceAttributes_v0>() - 32usize];
    ["Alignment of nvtxResourceAttributes_v0"]
        [::std::mem::align_of::<nvtxResourceAttributes_v0>() - 8usize];
    ["Offset of field: nvtxResourceAttributes_v0::version"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, version) - 0usize];
    ["Offset of field: nvtxResourceAttributes_v0::size"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, size) - 2usize];
    ["Offset of field: nvtxResourceAttributes_v0::identifierType"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, identifierType) - 4usize];
    ["Offset of field: nvtxResourceAttributes_v0::identifier"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, identifier) - 8usize];
    ["Offset of field: nvtxResourceAttributes_v0::messageType"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, messageType) - 16usize];
    ["Offset of field: nvtxResourceAttributes_v0::message"]
        [::std::mem::offset_of!(nvtxResourceAttributes_v0, message) - 24usize];
};
pub type nvtxResourceAttributes_t = nvtxResourceAttributes_v0;
#[repr(C)]
#[derive(Debug)]
pub struct nvtxResourceHandle {
    _unused: [u8; 0],
}
pub type nvtxResourceHandle_t = *mut nvtxResourceHandle;
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
pub type nvtxNameCategoryA_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(category: u32, name: *const ::std::os::raw::c_char)>;
pub type nvtxNameCategoryW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(category: u32, name: *const wchar_t)>;
pub type nvtxNameOsThreadA_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(threadId: u32, name: *const ::std::os::raw::c_char)>;
pub type nvtxNameOsThreadW_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(threadId: u32, name: *const wchar_t)>;
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
pub type nvtxDomainResourceCreate_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        domain: nvtxDomainHandle_t,
        attribs: *mut nvtxResourceAttributes_t,
    ) -> nvtxResourceHandle_t,
>;
pub type nvtxDomainResourceDestroy_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(resource: nvtxResourceHandle_t)>;
pub type nvtxDomainNameCategoryA_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(
        domain: nvtxDomainHandle_t,
        category: u32,
        name: *const ::std::os::raw::c_char,
    ),
>;
pub type nvtxDomainNameCategoryW_impl_fntype = ::std::option::Option<
    unsafe extern "C" fn(domain: nvtxDomainHandle_t, category: u32, name: *const wchar_t),
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
pub type nvtxDomainDestroy_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(domain: nvtxDomainHandle_t)>;
pub type nvtxInitialize_impl_fntype =
    ::std::option::Option<unsafe extern "C" fn(reserved: *const ::std::os::raw::c_void)>;
pub type NvtxGetExportTableFunc_t = ::std::option::Option<
    unsafe extern "C" fn(exportTableId: u32) -> *const ::std::os::raw::c_void,
>;
pub type NvtxInitializeInjectionNvtxFunc_t = ::std::option::Option<
    unsafe extern "C" fn(exportTable: NvtxGetExportTableFunc_t) -> ::std::os::raw::c_int,
>;
pub const NVTX_CB_MODULE_INVALID: NvtxCallbackModule = 0;
pub const NVTX_CB_MODULE_CORE: NvtxCallbackModule = 1;
pub const NVTX_CB_MODULE_CUDA: NvtxCallbackModule = 2;
pub const NVTX_CB_MODULE_OPENCL: NvtxCallbackModule = 3;
pub const NVTX_CB_MODULE_CUDART: NvtxCallbackModule = 4;
pub const NVTX_CB_MODULE_CORE2: NvtxCallbackModule = 5;
pub const NVTX_CB_MODULE_SYNC: NvtxCallbackModule = 6;
pub const NVTX_CB_MODULE_SIZE: NvtxCallbackModule = 7;
pub type NvtxCallbackModule = ::std::os::raw::c_uint;
pub const NVTX_CBID_CORE_INVALID: NvtxCallbackIdCore = 0;
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
pub const NVTX_CBID_CORE_NameCategoryA: NvtxCallbackIdCore = 12;
pub const NVTX_CBID_CORE_NameCategoryW: NvtxCallbackIdCore = 13;
pub const NVTX_CBID_CORE_NameOsThreadA: NvtxCallbackIdCore = 14;
pub const NVTX_CBID_CORE_NameOsThreadW: NvtxCallbackIdCore = 15;
pub const NVTX_CBID_CORE_SIZE: NvtxCallbackIdCore = 16;
pub type NvtxCallbackIdCore = ::std::os::raw::c_uint;
pub const NVTX_CBID_CORE2_INVALID: NvtxCallbackIdCore2 = 0;
pub const NVTX_CBID_CORE2_DomainMarkEx: NvtxCallbackIdCore2 = 1;
pub const NVTX_CBID_CORE2_DomainRangeStartEx: NvtxCallbackIdCore2 = 2;
pub const NVTX_CBID_CORE2_DomainRangeEnd: NvtxCallbackIdCore2 = 3;
pub const NVTX_CBID_CORE2_DomainRangePushEx: NvtxCallbackIdCore2 = 4;
pub const NVTX_CBID_CORE2_DomainRangePop: NvtxCallbackIdCore2 = 5;
pub const NVTX_CBID_CORE2_DomainResourceCreate: NvtxCallbackIdCore2 = 6;
pub const NVTX_CBID_CORE2_DomainResourceDestroy: NvtxCallbackIdCore2 = 7;
pub const NVTX_CBID_CORE2_DomainNameCategoryA: NvtxCallbackIdCore2 = 8;
pub const NVTX_CBID_CORE2_DomainNameCategoryW: NvtxCallbackIdCore2 = 9;
pub const NVTX_CBID_CORE2_DomainRegisterStringA: NvtxCallbackIdCore2 = 10;
pub const NVTX_CBID_CORE2_DomainRegisterStringW: NvtxCallbackIdCore2 = 11;
pub const NVTX_CBID_CORE2_DomainCreateA: NvtxCallbackIdCore2 = 12;
pub const NVTX_CBID_CORE2_DomainCreateW: NvtxCallbackIdCore2 = 13;
pub const NVTX_CBID_CORE2_DomainDestroy: NvtxCallbackIdCore2 = 14;
pub const NVTX_CBID_CORE2_Initialize: NvtxCallbackIdCore2 = 15;
pub const NVTX_CBID_CORE2_SIZE: NvtxCallbackIdCore2 = 16;
pub type NvtxCallbackIdCore2 = ::std::os::raw::c_uint;
pub const NVTX_ETID_INVALID: NvtxExportTableID = 0;
pub const NVTX_ETID_CALLBACKS: NvtxExportTableID = 1;
pub const NVTX_ETID_RESERVED0: NvtxExportTableID = 2;
pub const NVTX_ETID_VERSIONINFO: NvtxExportTableID = 3;
pub const NVTX_ETID_SIZE: NvtxExportTableID = 4;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of NvtxExportTableCallbacks"]
        [::std::mem::size_of::<NvtxExportTableCallbacks>() - 16usize];
    ["Alignment of NvtxExportTableCallbacks"]
        [::std::mem::align_of::<NvtxExportTableCallbacks>() - 8usize];
    ["Offset of field: NvtxExportTableCallbacks::struct_size"]
        [::std::mem::offset_of!(NvtxExportTableCallbacks, struct_size) - 0usize];
    ["Offset of field: NvtxExportTableCallbacks::GetModuleFunctionTable"]
        [::std::mem::offset_of!(NvtxExportTableCallbacks, GetModuleFunctionTable) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NvtxExportTableVersionInfo {
    pub struct_size: usize,
    pub version: u32,
    pub reserved0: u32,
    pub SetInjectionNvtxVersion: ::std::option::Option<unsafe extern "C" fn(version: u32)>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of NvtxExportTableVersionInfo"]
        [::std::mem::size_of::<NvtxExportTableVersionInfo>() - 24usize];
    ["Alignment of NvtxExportTableVersionInfo"]
        [::std::mem::align_of::<NvtxExportTableVersionInfo>() - 8usize];
    ["Offset of field: NvtxExportTableVersionInfo::struct_size"]
        [::std::mem::offset_of!(NvtxExportTableVersionInfo, struct_size) - 0usize];
    ["Offset of field: NvtxExportTableVersionInfo::version"]
        [::std::mem::offset_of!(NvtxExportTableVersionInfo, version) - 8usize];
    ["Offset of field: NvtxExportTableVersionInfo::reserved0"]
        [::std::mem::offset_of!(NvtxExportTableVersionInfo, reserved0) - 12usize];
    ["Offset of field: NvtxExportTableVersionInfo::SetInjectionNvtxVersion"]
        [::std::mem::offset_of!(NvtxExportTableVersionInfo, SetInjectionNvtxVersion) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadData_v1 {
    pub schemaId: u64,
    pub size: usize,
    pub payload: *const ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxPayloadData_v1"][::std::mem::size_of::<nvtxPayloadData_v1>() - 24usize];
    ["Alignment of nvtxPayloadData_v1"][::std::mem::align_of::<nvtxPayloadData_v1>() - 8usize];
    ["Offset of field: nvtxPayloadData_v1::schemaId"]
        [::std::mem::offset_of!(nvtxPayloadData_v1, schemaId) - 0usize];
    ["Offset of field: nvtxPayloadData_v1::size"]
        [::std::mem::offset_of!(nvtxPayloadData_v1, size) - 8usize];
    ["Offset of field: nvtxPayloadData_v1::payload"]
        [::std::mem::offset_of!(nvtxPayloadData_v1, payload) - 16usize];
};
pub type nvtxPayloadData_t = nvtxPayloadData_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxSemanticsHeader_v1 {
    pub structSize: u32,
    pub semanticId: u16,
    pub version: u16,
    pub next: *const nvtxSemanticsHeader_v1,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxSemanticsHeader_v1"][::std::mem::size_of::<nvtxSemanticsHeader_v1>() - 16usize];
    ["Alignment of nvtxSemanticsHeader_v1"]
        [::std::mem::align_of::<nvtxSemanticsHeader_v1>() - 8usize];
    ["Offset of field: nvtxSemanticsHeader_v1::structSize"]
        [::std::mem::offset_of!(nvtxSemanticsHeader_v1, structSize) - 0usize];
    ["Offset of field: nvtxSemanticsHeader_v1::semanticId"]
        [::std::mem::offset_of!(nvtxSemanticsHeader_v1, semanticId) - 4usize];
    ["Offset of field: nvtxSemanticsHeader_v1::version"]
        [::std::mem::offset_of!(nvtxSemanticsHeader_v1, version) - 6usize];
    ["Offset of field: nvtxSemanticsHeader_v1::next"]
        [::std::mem::offset_of!(nvtxSemanticsHeader_v1, next) - 8usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxPayloadSchemaEntry_v1"]
        [::std::mem::size_of::<nvtxPayloadSchemaEntry_v1>() - 64usize];
    ["Alignment of nvtxPayloadSchemaEntry_v1"]
        [::std::mem::align_of::<nvtxPayloadSchemaEntry_v1>() - 8usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::flags"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, flags) - 0usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::type_"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, type_) - 8usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::name"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, name) - 16usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::description"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, description) - 24usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::arrayOrUnionDetail"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, arrayOrUnionDetail) - 32usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::offset"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, offset) - 40usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::semantics"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, semantics) - 48usize];
    ["Offset of field: nvtxPayloadSchemaEntry_v1::reserved"]
        [::std::mem::offset_of!(nvtxPayloadSchemaEntry_v1, reserved) - 56usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxPayloadSchemaAttr_v1"]
        [::std::mem::size_of::<nvtxPayloadSchemaAttr_v1>() - 80usize];
    ["Alignment of nvtxPayloadSchemaAttr_v1"]
        [::std::mem::align_of::<nvtxPayloadSchemaAttr_v1>() - 8usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::fieldMask"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, fieldMask) - 0usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::name"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, name) - 8usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::type_"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, type_) - 16usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::flags"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, flags) - 24usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::entries"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, entries) - 32usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::numEntries"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, numEntries) - 40usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::payloadStaticSize"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, payloadStaticSize) - 48usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::packAlign"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, packAlign) - 56usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::schemaId"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, schemaId) - 64usize];
    ["Offset of field: nvtxPayloadSchemaAttr_v1::extension"]
        [::std::mem::offset_of!(nvtxPayloadSchemaAttr_v1, extension) - 72usize];
};
pub type nvtxPayloadSchemaAttr_t = nvtxPayloadSchemaAttr_v1;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct nvtxPayloadEnum_v1 {
    pub name: *const ::std::os::raw::c_char,
    pub value: u64,
    pub isFlag: i8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxPayloadEnum_v1"][::std::mem::size_of::<nvtxPayloadEnum_v1>() - 24usize];
    ["Alignment of nvtxPayloadEnum_v1"][::std::mem::align_of::<nvtxPayloadEnum_v1>() - 8usize];
    ["Offset of field: nvtxPayloadEnum_v1::name"]
        [::std::mem::offset_of!(nvtxPayloadEnum_v1, name) - 0usize];
    ["Offset of field: nvtxPayloadEnum_v1::value"]
        [::std::mem::offset_of!(nvtxPayloadEnum_v1, value) - 8usize];
    ["Offset of field: nvtxPayloadEnum_v1::isFlag"]
        [::std::mem::offset_of!(nvtxPayloadEnum_v1, isFlag) - 16usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxPayloadEnumAttr_v1"][::std::mem::size_of::<nvtxPayloadEnumAttr_v1>() - 56usize];
    ["Alignment of nvtxPayloadEnumAttr_v1"]
        [::std::mem::align_of::<nvtxPayloadEnumAttr_v1>() - 8usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::fieldMask"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, fieldMask) - 0usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::name"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, name) - 8usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::entries"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, entries) - 16usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::numEntries"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, numEntries) - 24usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::sizeOfEnum"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, sizeOfEnum) - 32usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::schemaId"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, schemaId) - 40usize];
    ["Offset of field: nvtxPayloadEnumAttr_v1::extension"]
        [::std::mem::offset_of!(nvtxPayloadEnumAttr_v1, extension) - 48usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxExtModuleSegment_t"][::std::mem::size_of::<nvtxExtModuleSegment_t>() - 24usize];
    ["Alignment of nvtxExtModuleSegment_t"]
        [::std::mem::align_of::<nvtxExtModuleSegment_t>() - 8usize];
    ["Offset of field: nvtxExtModuleSegment_t::segmentId"]
        [::std::mem::offset_of!(nvtxExtModuleSegment_t, segmentId) - 0usize];
    ["Offset of field: nvtxExtModuleSegment_t::slotCount"]
        [::std::mem::offset_of!(nvtxExtModuleSegment_t, slotCount) - 8usize];
    ["Offset of field: nvtxExtModuleSegment_t::functionSlots"]
        [::std::mem::offset_of!(nvtxExtModuleSegment_t, functionSlots) - 16usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of nvtxExtModuleInfo_t"][::std::mem::size_of::<nvtxExtModuleInfo_t>() - 40usize];
    ["Alignment of nvtxExtModuleInfo_t"][::std::mem::align_of::<nvtxExtModuleInfo_t>() - 8usize];
    ["Offset of field: nvtxExtModuleInfo_t::nvtxVer"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, nvtxVer) - 0usize];
    ["Offset of field: nvtxExtModuleInfo_t::structSize"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, structSize) - 2usize];
    ["Offset of field: nvtxExtModuleInfo_t::moduleId"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, moduleId) - 4usize];
    ["Offset of field: nvtxExtModuleInfo_t::compatId"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, compatId) - 6usize];
    ["Offset of field: nvtxExtModuleInfo_t::segmentsCount"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, segmentsCount) - 8usize];
    ["Offset of field: nvtxExtModuleInfo_t::segments"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, segments) - 16usize];
    ["Offset of field: nvtxExtModuleInfo_t::getExportFunction"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, getExportFunction) - 24usize];
    ["Offset of field: nvtxExtModuleInfo_t::extInfo"]
        [::std::mem::offset_of!(nvtxExtModuleInfo_t, extInfo) - 32usize];
};
pub type NvtxExtInitializeInjectionFunc_t = ::std::option::Option<
    unsafe extern "C" fn(moduleInfo: *mut nvtxExtModuleInfo_t) -> ::std::os::raw::c_int,
>;
pub const NVTX_PAYLOAD_TYPE_EXTENDED: i32 = -541261815;
pub const NVTX_PUSH_POP_NOT_TRACKED: i32 = -2;
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
