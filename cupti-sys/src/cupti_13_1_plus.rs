//! What CUPTI versions after the generated bindings (13.0) added, as far as it is used here.
//!
//! Written by hand from the headers of CUPTI 13.5, so that one binary uses what is there.

#![allow(missing_docs, non_camel_case_types, non_snake_case)]

use crate::bindings as cupti;
use std::os::raw::c_char;

/// 13.1: hardware event tracing was asked for under MPS.
pub const CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS: cupti::CUptiResult = 47;

pub const CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE: cupti::CUpti_ActivityKind = 56;

/// First version whose `cuptiSubscribe_v2` takes [`SubscriberParams`] in full; 13.0 and 13.1 take
/// the shorter `CUpti_SubscriberParams`.
pub const LONG_SUBSCRIBER_PARAMS_SINCE: u32 = 130_200;

/// `CUpti_SubscriberParams` as of 13.2.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SubscriberParams {
    pub structSize: usize,
    pub subscriberName: *const c_char,
    pub oldSubscriberName: *mut c_char,
    pub oldSubscriberSize: usize,
    pub allowMultipleSubscribers: u8,
    pub padding: [u8; 7],
}
