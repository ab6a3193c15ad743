//! NVTX's tables of function slots, filled with the functions that NVTX calls from then on.

use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;

use cupti_sys::nvtx as sys;

use super::message::{self, Payloads, Text};
use super::register::{create_domain, register_enumeration, register_schema, register_string};
use super::{Attributes, Handle, end, mark, pop, push, start};
use crate::base::barrier;
use crate::guest::registry::registry;

/// What NVTX passes to its tool.
pub type GetExportTable = unsafe extern "C" fn(id: u32) -> *const c_void;
type Attr = *const sys::nvtxEventAttributes_t;
type Domain = sys::nvtxDomainHandle_t;
type StringHandle = sys::nvtxStringHandle_t;
type SchemaAttr = *const sys::nvtxPayloadSchemaAttr_t;
type EnumAttr = *const sys::nvtxPayloadEnumAttr_t;

/// Puts our functions into the tables of the library that asks. Called once for each library of
/// the guest that uses NVTX, possibly by several threads at once (NVTX before CUDA 12.9); writing
/// the same addresses twice does no harm. `false` where NVTX does not give its tables.
///
/// # Safety
/// `get` is the function that NVTX passes to `InitializeInjectionNvtx2`.
pub unsafe fn attach(get: Option<GetExportTable>) -> bool {
    let Some(get) = get else { return false };
    // Not at a registration: there may be little time or memory then.
    registry().prepare();
    let fill = |module, entries: &[(u32, sys::NvtxFunctionPointer)]| {
        // SAFETY: the caller's contract.
        let Some(table) = (unsafe { Table::find(get, module) }) else { return false };
        entries.iter().for_each(|&(id, function)| table.set(id, function));
        true
    };
    fill(sys::NVTX_CB_MODULE_CORE, &core()) & fill(sys::NVTX_CB_MODULE_CORE2, &core2())
}

/// Has every function of the library that asks do nothing, as NVTX has it where there is no tool.
///
/// # Safety
/// As [`attach`], and the library is still loaded.
pub unsafe fn detach(get: GetExportTable) {
    for module in sys::NVTX_CB_MODULE_CORE..sys::NVTX_CB_MODULE_SIZE {
        // SAFETY: the caller's contract.
        if let Some(table) = unsafe { Table::find(get, module) } {
            (0..table.size).for_each(|id| table.set(id, None));
        }
    }
}

struct Table {
    slots: sys::NvtxFunctionTable,
    size: u32,
}

impl Table {
    /// # Safety
    /// As [`attach`].
    unsafe fn find(get: GetExportTable, module: sys::NvtxCallbackModule) -> Option<Self> {
        // SAFETY: NVTX answers every id, unknown ones with null; a non-null answer is a table that
        // lives as long as the library; both places are valid for the answer.
        unsafe {
            let callbacks = get(sys::NVTX_ETID_CALLBACKS).cast::<sys::NvtxExportTableCallbacks>();
            let get_table = callbacks.as_ref()?.GetModuleFunctionTable?;
            let mut table = Table { slots: std::ptr::null_mut(), size: 0 };
            let found = get_table(module, &raw mut table.slots, &raw mut table.size);
            (found != 0 && !table.slots.is_null()).then_some(table)
        }
    }

    /// Tables differ in length (version 2 clients have no `Initialize`).
    fn set(&self, id: u32, function: sys::NvtxFunctionPointer) {
        if id < self.size {
            // SAFETY: `id` is inside the table, whose entries point to writable slots.
            unsafe {
                let slot = *self.slots.add(id as usize);
                if !slot.is_null() {
                    *slot = function;
                }
            }
        }
    }
}

/// Puts our functions into the slots of NVTX's payload extension, and leaves all slots that we do
/// not know, and all other extensions, as they are.
///
/// # Safety
/// `info` is null or what NVTX passes to `InitializeInjectionNvtxExtension`.
pub unsafe fn attach_extension(info: *mut sys::nvtxExtModuleInfo_t) {
    if info.is_null() {
        return;
    }
    registry().prepare();
    // SAFETY: NVTX passes a complete struct whose segments each have `slotCount` slots.
    unsafe {
        let info = info.read_unaligned();
        if info.moduleId != sys::NVTX_EXT_PAYLOAD_MODULEID as u16 || info.segments.is_null() {
            return;
        }
        // The module has one segment in every version; in a further one the ids would mean others.
        if info.segmentsCount == 0 {
            return;
        }
        let segment = info.segments.read_unaligned();
        if segment.functionSlots.is_null() {
            return;
        }
        for (id, function) in payload() {
            if (id as usize) < segment.slotCount {
                *segment.functionSlots.add(id as usize) =
                    function.map_or(0, |function| function as usize as isize);
            }
        }
    }
}

/// A function that gives a table of NVTX slots: number, function, and the type with which NVTX calls it, which
/// the function's own is compared with.
macro_rules! slots {
    ($($table:ident [$count:literal] { $($id:ident $function:ident $type:ident,)* })*) => {$(
        fn $table() -> [(u32, sys::NvtxFunctionPointer); $count] {
            [$({
                let function: sys::$type = Some($function);
                // SAFETY: both are nullable function pointers; NVTX calls it with the type compared above.
                (sys::$id, unsafe { transmute::<sys::$type, sys::NvtxFunctionPointer>(function) })
            },)*]
        }
    )*};
}

slots! {
    core [11] {
        NVTX_CBID_CORE_MarkEx mark_ex nvtxMarkEx_impl_fntype,
        NVTX_CBID_CORE_MarkA mark_a nvtxMarkA_impl_fntype,
        NVTX_CBID_CORE_MarkW mark_w nvtxMarkW_impl_fntype,
        NVTX_CBID_CORE_RangeStartEx range_start_ex nvtxRangeStartEx_impl_fntype,
        NVTX_CBID_CORE_RangeStartA range_start_a nvtxRangeStartA_impl_fntype,
        NVTX_CBID_CORE_RangeStartW range_start_w nvtxRangeStartW_impl_fntype,
        NVTX_CBID_CORE_RangeEnd range_end nvtxRangeEnd_impl_fntype,
        NVTX_CBID_CORE_RangePushEx range_push_ex nvtxRangePushEx_impl_fntype,
        NVTX_CBID_CORE_RangePushA range_push_a nvtxRangePushA_impl_fntype,
        NVTX_CBID_CORE_RangePushW range_push_w nvtxRangePushW_impl_fntype,
        NVTX_CBID_CORE_RangePop range_pop nvtxRangePop_impl_fntype,
    }
    core2 [9] {
        NVTX_CBID_CORE2_DomainMarkEx domain_mark_ex nvtxDomainMarkEx_impl_fntype,
        NVTX_CBID_CORE2_DomainRangeStartEx domain_range_start_ex nvtxDomainRangeStartEx_impl_fntype,
        NVTX_CBID_CORE2_DomainRangeEnd domain_range_end nvtxDomainRangeEnd_impl_fntype,
        NVTX_CBID_CORE2_DomainRangePushEx domain_range_push_ex nvtxDomainRangePushEx_impl_fntype,
        NVTX_CBID_CORE2_DomainRangePop domain_range_pop nvtxDomainRangePop_impl_fntype,
        NVTX_CBID_CORE2_DomainRegisterStringA domain_register_string_a nvtxDomainRegisterStringA_impl_fntype,
        NVTX_CBID_CORE2_DomainRegisterStringW domain_register_string_w nvtxDomainRegisterStringW_impl_fntype,
        NVTX_CBID_CORE2_DomainCreateA domain_create_a nvtxDomainCreateA_impl_fntype,
        NVTX_CBID_CORE2_DomainCreateW domain_create_w nvtxDomainCreateW_impl_fntype,
    }
    payload [8] {
        NVTX3EXT_CBID_nvtxPayloadSchemaRegister schema_register nvtxPayloadSchemaRegister_impl_fntype,
        NVTX3EXT_CBID_nvtxPayloadEnumRegister enum_register nvtxPayloadEnumRegister_impl_fntype,
        NVTX3EXT_CBID_nvtxMarkPayload mark_payload nvtxMarkPayload_impl_fntype,
        NVTX3EXT_CBID_nvtxRangePushPayload range_push_payload nvtxRangePushPayload_impl_fntype,
        NVTX3EXT_CBID_nvtxRangePopPayload range_pop_payload nvtxRangePopPayload_impl_fntype,
        NVTX3EXT_CBID_nvtxRangeStartPayload range_start_payload nvtxRangeStartPayload_impl_fntype,
        NVTX3EXT_CBID_nvtxRangeEndPayload range_end_payload nvtxRangeEndPayload_impl_fntype,
        NVTX3EXT_CBID_nvtxDomainIsEnabled domain_is_enabled nvtxDomainIsEnabled_impl_fntype,
    }
}

fn named(text: Text<'_>) -> Attributes<'_> {
    Attributes { text, ..Attributes::NONE }
}

// The functions below are called by NVTX's inline wrappers with the arguments of the guest's call;
// NVTX's documentation makes the guest vouch for its pointers. Each reads them and returns.

/// Functions whose only argument is attributes, or attributes in a domain.
macro_rules! with_attributes {
    ($($plain:ident, $in_domain:ident => $call:ident -> $result:ty;)*) => {$(
        unsafe extern "C" fn $plain(attributes: Attr) -> $result {
            // SAFETY: NVTX passes the guest's pointer, valid during this call.
            $call(Handle::NULL, unsafe { message::read(attributes) })
        }
        unsafe extern "C" fn $in_domain(domain: Domain, attributes: Attr) -> $result {
            // SAFETY: as above.
            $call(Handle(domain as u64), unsafe { message::read(attributes) })
        }
    )*};
}

with_attributes! {
    mark_ex, domain_mark_ex => mark -> ();
    range_start_ex, domain_range_start_ex => start -> u64;
    range_push_ex, domain_range_push_ex => push -> c_int;
}

/// Functions whose only argument is a text.
macro_rules! with_text {
    ($($ascii:ident, $wide:ident => $call:ident -> $result:ty;)*) => {$(
        unsafe extern "C" fn $ascii(text: *const c_char) -> $result {
            // SAFETY: NVTX passes the guest's string, valid during this call.
            $call(Handle::NULL, named(unsafe { Text::from_ascii(text) }))
        }
        unsafe extern "C" fn $wide(text: *const sys::wchar_t) -> $result {
            // SAFETY: as above.
            $call(Handle::NULL, named(unsafe { Text::from_wide(text) }))
        }
    )*};
}

with_text! {
    mark_a, mark_w => mark -> ();
    range_start_a, range_start_w => start -> u64;
    range_push_a, range_push_w => push -> c_int;
}

unsafe extern "C" fn range_end(id: u64) {
    end(Handle::NULL, id, Payloads::NONE);
}

unsafe extern "C" fn domain_range_end(domain: Domain, id: u64) {
    end(Handle(domain as u64), id, Payloads::NONE);
}

unsafe extern "C" fn range_pop() -> c_int {
    pop(Handle::NULL, Payloads::NONE)
}

unsafe extern "C" fn domain_range_pop(domain: Domain) -> c_int {
    pop(Handle(domain as u64), Payloads::NONE)
}

unsafe extern "C" fn domain_create_a(name: *const c_char) -> Domain {
    // SAFETY: NVTX passes the guest's string, valid during this call.
    create_domain(unsafe { Text::from_ascii(name) }).0 as Domain
}

unsafe extern "C" fn domain_create_w(name: *const sys::wchar_t) -> Domain {
    // SAFETY: as above.
    create_domain(unsafe { Text::from_wide(name) }).0 as Domain
}

unsafe extern "C" fn domain_register_string_a(domain: Domain, text: *const c_char) -> StringHandle {
    // SAFETY: as above.
    register_string(Handle(domain as u64), unsafe { Text::from_ascii(text) }).0 as StringHandle
}

unsafe extern "C" fn domain_register_string_w(
    domain: Domain,
    text: *const sys::wchar_t,
) -> StringHandle {
    // SAFETY: as above.
    register_string(Handle(domain as u64), unsafe { Text::from_wide(text) }).0 as StringHandle
}

unsafe extern "C" fn schema_register(domain: Domain, attributes: SchemaAttr) -> u64 {
    // SAFETY: NVTX passes the guest's pointer, valid with what it points to during this call.
    let register = || unsafe { register_schema(registry(), Handle(domain as u64), attributes) };
    barrier::catch(None, register).unwrap_or(0)
}

unsafe extern "C" fn enum_register(domain: Domain, attributes: EnumAttr) -> u64 {
    // SAFETY: as above.
    let register =
        || unsafe { register_enumeration(registry(), Handle(domain as u64), attributes) };
    barrier::catch(None, register).unwrap_or(0)
}

type Data = *const sys::nvtxPayloadData_t;

unsafe extern "C" fn mark_payload(domain: Domain, data: Data, count: usize) {
    // SAFETY: as above.
    mark(Handle(domain as u64), Attributes::of(unsafe { Payloads::new(data, count) }));
}

unsafe extern "C" fn range_push_payload(domain: Domain, data: Data, count: usize) -> c_int {
    // SAFETY: as above.
    push(Handle(domain as u64), Attributes::of(unsafe { Payloads::new(data, count) }))
}

unsafe extern "C" fn range_pop_payload(domain: Domain, data: Data, count: usize) -> c_int {
    // SAFETY: as above.
    pop(Handle(domain as u64), unsafe { Payloads::new(data, count) })
}

unsafe extern "C" fn range_start_payload(domain: Domain, data: Data, count: usize) -> u64 {
    // SAFETY: as above.
    start(Handle(domain as u64), Attributes::of(unsafe { Payloads::new(data, count) }))
}

unsafe extern "C" fn range_end_payload(domain: Domain, id: u64, data: Data, count: usize) {
    // SAFETY: as above.
    end(Handle(domain as u64), id, unsafe { Payloads::new(data, count) });
}

unsafe extern "C" fn domain_is_enabled(_domain: Domain) -> u8 {
    1
}
