//! Who may use CUPTI in a process: registrations for callbacks, by name where CUPTI has names.

use crate::bindings as cupti;
use crate::error::{CuptiError, Result, check};
use crate::table::Api;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::mem::{offset_of, size_of};
use std::ptr::{self, NonNull};

/// Called by CUPTI for every enabled callback, with what was given to [`Api::subscribe`], the
/// domain, the callback id and the domain's data (for API calls `CUpti_CallbackData`), which is
/// valid during the call only.
pub type Callback = extern "C" fn(
    user_data: *mut c_void,
    domain: cupti::CUpti_CallbackDomain,
    id: cupti::CUpti_CallbackId,
    data: *const c_void,
);

/// A registration for callbacks. CUPTI allows one in a process; from 13.3 on several, where the driver
/// is of CUDA 13.3 or newer and each of them came in through [`Api::subscribe_as`] with
/// [`Company::Welcome`].
///
/// Dropping it leaves the registration in place; [`Api::unsubscribe`] ends it.
#[derive(Debug)]
pub struct Subscriber(NonNull<cupti::CUpti_Subscriber_st>);

// SAFETY: the handle is only a name for CUPTI, whose functions may be called from any thread.
unsafe impl Send for Subscriber {}
// SAFETY: shared references to it give access to nothing.
unsafe impl Sync for Subscriber {}

impl Subscriber {
    /// A second name for the same registration, for threads that collect while another one switches
    /// callbacks.
    ///
    /// # Safety
    /// It is used neither after the registration ended nor to end it, nor for [`Api::enable_callback`].
    pub const unsafe fn alias(&self) -> Self {
        Self(self.0)
    }

    /// The handle, for functions of the table that have no method.
    pub const fn handle(&self) -> cupti::CUpti_SubscriberHandle {
        self.0.as_ptr()
    }
}

/// Whether a subscriber lets others in. The first one decides for the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// No other tool may subscribe.
    Refused,
    /// Others that allow it, too, may subscribe (CUPTI 13.2 and later).
    Welcome,
}

/// Why [`Api::subscribe_as`] failed, and who is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What CUPTI answered.
    pub error: CuptiError,
    /// The tool that holds CUPTI, as it calls itself; `None` if CUPTI names nobody.
    pub holder: Option<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => {
                write!(out, "CUPTI is held by {holder:?} and refused to subscribe: {}", self.error)
            }
            None => write!(out, "CUPTI refused to subscribe: {}", self.error),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<CuptiError> for Refusal {
    fn from(error: CuptiError) -> Self {
        Self { error, holder: None }
    }
}

/// First version whose `cuptiSubscribe_v2` takes `CUpti_SubscriberParams` in full; 13.0 and 13.1 end
/// before `allowMultipleSubscribers`.
const COMPANY_SINCE: u32 = 130_200;

/// The longest name of a subscriber that CUPTI hands out is 64 bytes, its ending included.
const NAME_BYTES: usize = 128;

impl Api {
    /// Registers the process's callback; which calls it sees is up to [`Api::enable_callback`].
    ///
    /// # Errors
    /// [`CuptiError::MULTIPLE_SUBSCRIBERS`] if another tool was first; see [`Api::holder`].
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "nobody but the callback looks at it")]
    pub fn subscribe(&self, callback: Callback, user_data: *mut c_void) -> Result<Subscriber> {
        let mut handle = ptr::null_mut();
        // SAFETY: by the contract of `load`; `user_data` is handed back, never looked at, and the
        // callback is a safe function for any arguments.
        check(unsafe { (self.subscribe)(&mut handle, Some(callback), user_data) })?;
        NonNull::new(handle).map(Subscriber).ok_or(CuptiError::UNKNOWN)
    }

    /// Registers a callback under a name, which CUPTI shows to tools that it refuses (13.0 and later).
    /// CUPTI puts `CUPTI for ` in front of the name and cuts it after 53 bytes.
    ///
    /// # Errors
    /// [`CuptiError::MULTIPLE_SUBSCRIBERS`] with the name of who was first, [`CuptiError::NOT_IMPLEMENTED`]
    /// before 13.0, and `CUPTI_ERROR_NOT_SUPPORTED` for [`Company::Welcome`] before 13.2.
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "nobody but the callback looks at it")]
    pub fn subscribe_as(
        &self,
        name: &CStr,
        company: Company,
        callback: Callback,
        user_data: *mut c_void,
    ) -> std::result::Result<Subscriber, Refusal> {
        let subscribe = self.subscribe_v2.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        let takes_company = self.version()? >= COMPANY_SINCE;
        if company == Company::Welcome && !takes_company {
            return Err(CuptiError::from(cupti::CUPTI_ERROR_NOT_SUPPORTED).into());
        }
        let mut holder = [0_u8; NAME_BYTES];
        let mut parameters = cupti::CUpti_SubscriberParams {
            structSize: if takes_company {
                size_of::<cupti::CUpti_SubscriberParams>()
            } else {
                offset_of!(cupti::CUpti_SubscriberParams, allowMultipleSubscribers)
            },
            subscriberName: name.as_ptr(),
            oldSubscriberName: holder.as_mut_ptr().cast::<c_char>(),
            // The last byte stays 0 whatever CUPTI writes.
            oldSubscriberSize: holder.len() - 1,
            allowMultipleSubscribers: (company == Company::Welcome).into(),
            padding: [0; 7],
        };
        let mut handle = ptr::null_mut();
        // SAFETY: by the contract of `load`; all pointers are valid during the call, the parameters are
        // at least as long as they say, and the callback is a safe function for any arguments.
        let code =
            unsafe { subscribe(&mut handle, Some(callback), user_data, &raw mut parameters) };
        check(code).map_err(|error| {
            let name = CStr::from_bytes_until_nul(&holder).unwrap_or_default().to_string_lossy();
            Refusal { error, holder: (!name.is_empty()).then(|| name.into_owned()) }
        })?;
        NonNull::new(handle).map(Subscriber).ok_or_else(|| CuptiError::UNKNOWN.into())
    }

    /// Ends a registration.
    pub fn unsubscribe(&self, subscriber: Subscriber) -> Result<()> {
        // SAFETY: by the contract of `load`; the handle came from CUPTI and ends here.
        check(unsafe { (self.unsubscribe)(subscriber.handle()) })
    }

    /// Switches the callback on or off for one function or event. The exclusive reference keeps
    /// these calls apart, which CUPTI leaves to its client.
    pub fn enable_callback(
        &self,
        subscriber: &mut Subscriber,
        domain: cupti::CUpti_CallbackDomain,
        id: cupti::CUpti_CallbackId,
        on: bool,
    ) -> Result<()> {
        // SAFETY: by the contract of `load`; the handle is live.
        check(unsafe { (self.enable_callback)(on.into(), subscriber.handle(), domain, id) })
    }

    /// Who holds CUPTI, as that subscriber calls itself, after [`Api::subscribe`] was refused with
    /// [`CuptiError::MULTIPLE_SUBSCRIBERS`]. CUPTI tells from 13.0.
    ///
    /// To ask is to try to subscribe once more, as `own_name`; a success is undone at once.
    pub fn holder(&self, own_name: &CStr) -> Option<String> {
        extern "C" fn nothing(_: *mut c_void, _: u32, _: u32, _: *const c_void) {}
        match self.subscribe_as(own_name, Company::Refused, nothing, ptr::null_mut()) {
            Ok(subscriber) => {
                // The failure of an undo has no one to go to: the next subscription will report it.
                let _ = self.unsubscribe(subscriber);
                None
            }
            Err(refusal) => refusal.holder,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_who_is_in_the_way_and_what_to_do() {
        let holder = Some("CUPTI for Kineto\u{1b}".to_owned());
        let shown = Refusal { error: CuptiError::MULTIPLE_SUBSCRIBERS, holder }.to_string();
        assert!(shown.contains(r#""CUPTI for Kineto\u{1b}""#), "{shown}");
        assert!(shown.contains("switch that one off"), "{shown}");
        let shown = Refusal::from(CuptiError::NOT_IMPLEMENTED).to_string();
        assert!(shown.contains("CUPTI_ERROR_API_NOT_IMPLEMENTED"), "{shown}");
    }
}
