//! NVTX's payload extension, and every way to open and close a range, as a client calls them.

use std::ffi::{CStr, c_int};
use std::ptr;

use cupti_sys::nvtx as sys;
use cupti_sys::nvtx::nvtxPayloadData_t as Data;

use crate::nvtx::{FRESH, Nvtx};

pub type Opener<'a> = Box<dyn Fn(&CStr) + 'a>;
/// Closes a push/pop range and gives its level.
pub type Closer<'a> = Box<dyn Fn() -> c_int + 'a>;

pub fn data<T>(schema: u64, payload: &T) -> Data {
    Data { schemaId: schema, size: size_of::<T>(), payload: ptr::from_ref(payload).cast() }
}

pub fn entry(kind: u64, name: &'static CStr, offset: usize) -> sys::nvtxPayloadSchemaEntry_t {
    sys::nvtxPayloadSchemaEntry_t {
        flags: 0,
        type_: kind,
        name: name.as_ptr(),
        description: ptr::null(),
        arrayOrUnionDetail: 0,
        offset: offset as u64,
        semantics: ptr::null(),
        reserved: ptr::null(),
    }
}

pub fn attributes(name: &CStr, payloads: &[Data]) -> sys::nvtxEventAttributes_t {
    // SAFETY: all-zero is a valid value of this struct of numbers and pointers.
    let mut attributes: sys::nvtxEventAttributes_t = unsafe { std::mem::zeroed() };
    attributes.version = 3;
    attributes.size = size_of::<sys::nvtxEventAttributes_t>() as u16;
    attributes.messageType = sys::NVTX_MESSAGE_TYPE_ASCII as i32;
    attributes.message.ascii = name.as_ptr();
    if !payloads.is_empty() {
        attributes.payloadType = sys::NVTX_PAYLOAD_TYPE_EXTENDED;
        attributes.reserved0 = payloads.len() as i32;
        attributes.payload.ullValue = payloads.as_ptr() as u64;
    }
    attributes
}

impl Nvtx {
    /// The function in a slot of the extension. `F` must be its type.
    fn extension<F: Copy>(&self, id: u32) -> F {
        const { assert!(size_of::<F>() == size_of::<isize>()) };
        let slot = self.payload[id as usize];
        assert_ne!(slot, FRESH, "slot {id} is the tool's");
        // SAFETY: the tool put a function of the type that NVTX documents for the slot.
        unsafe { std::mem::transmute_copy(&slot) }
    }

    pub fn schema(
        &self,
        domain: usize,
        id: u64,
        size: usize,
        entries: &[sys::nvtxPayloadSchemaEntry_t],
    ) -> u64 {
        let mask = sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME
            | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE
            | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES
            | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES
            | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE
            | sys::NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_SCHEMA_ID;
        let attributes = sys::nvtxPayloadSchemaAttr_t {
            fieldMask: mask.into(),
            name: c"schema".as_ptr(),
            type_: sys::NVTX_PAYLOAD_SCHEMA_TYPE_STATIC.into(),
            flags: 0,
            entries: entries.as_ptr(),
            numEntries: entries.len(),
            payloadStaticSize: size,
            packAlign: 0,
            schemaId: id,
            extension: ptr::null_mut(),
        };
        self.schema_of(domain, &raw const attributes)
    }

    pub fn schema_of(&self, domain: usize, attributes: *const sys::nvtxPayloadSchemaAttr_t) -> u64 {
        type F = unsafe extern "C" fn(usize, *const sys::nvtxPayloadSchemaAttr_t) -> u64;
        // SAFETY: the caller's attributes live during the call, or are null.
        unsafe {
            self.extension::<F>(sys::NVTX3EXT_CBID_nvtxPayloadSchemaRegister)(domain, attributes)
        }
    }

    pub fn enumeration(&self, domain: usize, id: u64, values: &[(&CStr, u64)]) -> u64 {
        let entries: Vec<sys::nvtxPayloadEnum_t> = values
            .iter()
            .map(|(name, value)| sys::nvtxPayloadEnum_t {
                name: name.as_ptr(),
                value: *value,
                isFlag: 0,
            })
            .collect();
        let mask = sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_ENTRIES
            | sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_NUM_ENTRIES
            | sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_SIZE
            | sys::NVTX_PAYLOAD_ENUM_ATTR_FIELD_SCHEMA_ID;
        let attributes = sys::nvtxPayloadEnumAttr_t {
            fieldMask: mask.into(),
            name: ptr::null(),
            entries: entries.as_ptr(),
            numEntries: entries.len(),
            sizeOfEnum: 4,
            schemaId: id,
            extension: ptr::null_mut(),
        };
        self.enumeration_of(domain, &raw const attributes)
    }

    pub fn enumeration_of(
        &self,
        domain: usize,
        attributes: *const sys::nvtxPayloadEnumAttr_t,
    ) -> u64 {
        type F = unsafe extern "C" fn(usize, *const sys::nvtxPayloadEnumAttr_t) -> u64;
        // SAFETY: as above.
        unsafe {
            self.extension::<F>(sys::NVTX3EXT_CBID_nvtxPayloadEnumRegister)(domain, attributes)
        }
    }

    /// Calls a function of the extension that takes payloads and gives a `T`.
    fn call_payload<T>(&self, id: u32, domain: usize, data: *const Data, count: usize) -> T {
        let f: unsafe extern "C" fn(usize, *const Data, usize) -> T = self.extension(id);
        // SAFETY: the payloads live during the call.
        unsafe { f(domain, data, count) }
    }

    pub fn mark_payload(&self, domain: usize, data: &[Data]) {
        let id = sys::NVTX3EXT_CBID_nvtxMarkPayload;
        self.call_payload(id, domain, data.as_ptr(), data.len())
    }

    pub fn push_payload(&self, domain: usize, data: &[Data]) -> c_int {
        self.push_payload_raw(domain, data.as_ptr(), data.len())
    }

    pub fn push_payload_raw(&self, domain: usize, data: *const Data, count: usize) -> c_int {
        self.call_payload(sys::NVTX3EXT_CBID_nvtxRangePushPayload, domain, data, count)
    }

    pub fn pop_payload(&self, domain: usize, data: &[Data]) -> c_int {
        let id = sys::NVTX3EXT_CBID_nvtxRangePopPayload;
        self.call_payload(id, domain, data.as_ptr(), data.len())
    }

    pub fn start_payload(&self, domain: usize, data: &[Data]) -> u64 {
        let id = sys::NVTX3EXT_CBID_nvtxRangeStartPayload;
        self.call_payload(id, domain, data.as_ptr(), data.len())
    }

    pub fn end_payload(&self, domain: usize, id: u64, data: &[Data]) {
        type F = unsafe extern "C" fn(usize, u64, *const Data, usize);
        let f = self.extension::<F>(sys::NVTX3EXT_CBID_nvtxRangeEndPayload);
        // SAFETY: as above.
        unsafe { f(domain, id, data.as_ptr(), data.len()) };
    }

    pub fn is_enabled(&self, domain: usize) -> u8 {
        type F = unsafe extern "C" fn(usize) -> u8;
        // SAFETY: any handle is allowed.
        unsafe { self.extension::<F>(sys::NVTX3EXT_CBID_nvtxDomainIsEnabled)(domain) }
    }

    /// Opens a push/pop range in the default domain through each function that can.
    pub fn openers(&self) -> Vec<(&'static str, Opener<'_>)> {
        use sys::*;
        type OfAttributes = unsafe extern "C" fn(*const nvtxEventAttributes_t) -> c_int;
        let wide = |name: &CStr| {
            let wide: Vec<i32> = name.to_bytes_with_nul().iter().map(|&c| c.into()).collect();
            self.push_wide(&wide);
        };
        let extended = |name: &CStr| {
            let f =
                self.function::<OfAttributes>(false, NVTX_CBID_CORE_RangePushEx).expect("a slot");
            // SAFETY: the name lives during the call.
            unsafe { f(&attributes(name, &[])) };
        };
        let of_domain = |name: &CStr| {
            self.push_in(0, &attributes(name, &[]));
        };
        let payload = |name: &CStr| {
            let message = text_schema(self);
            let mut text = [0u8; 64];
            text[..name.count_bytes()].copy_from_slice(name.to_bytes());
            self.push_payload(0, &[data(message, &text)]);
        };
        vec![
            (
                "RangePushA",
                Box::new(|name: &CStr| {
                    self.push_c(name);
                }),
            ),
            ("RangePushW", Box::new(wide)),
            ("RangePushEx", Box::new(extended)),
            ("DomainRangePushEx", Box::new(of_domain)),
            ("RangePushPayload", Box::new(payload)),
        ]
    }

    /// Closes a push/pop range of the default domain through each function that can.
    pub fn closers(&self) -> Vec<(&'static str, Closer<'_>)> {
        vec![
            ("RangePop", Box::new(|| self.pop())),
            ("DomainRangePop", Box::new(|| self.pop_in(0))),
            ("RangePopPayload", Box::new(|| self.pop_payload(0, &[]))),
        ]
    }
}

/// A schema whose only entry is the message: 64 characters.
pub fn text_schema(nvtx: &Nvtx) -> u64 {
    let mut message = entry(sys::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING.into(), c"message", 0);
    message.flags = sys::NVTX_PAYLOAD_ENTRY_FLAG_EVENT_MESSAGE.into();
    message.arrayOrUnionDetail = 64;
    nvtx.schema(0, 0, 64, &[message])
}
