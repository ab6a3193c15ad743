//! Hardware counters of a whole GPU, sampled at an interval (CUPTI 12.6 and later).
//!
//! Everything may be called from any thread, one at a time for each object. Nothing here keeps CUPTI's
//! counter data longer than a call: values leave as numbers.

use crate::bindings as cupti;
use crate::error::{CuptiError, Result, check};
use crate::table::Api;
use std::ffi::{CStr, CString, c_char};
use std::mem::offset_of;
use std::sync::Arc;

/// Parameters of one of CUPTI's functions, empty except for their size: up to and with the last field that
/// is used here. The fields are the same in the headers of 12.6, 12.8, 13.0 and 13.5, with two
/// exceptions: 12.6 has no `hwBufferAppendMode` ([`Session::set_trigger`]), and 13.2 added a field to
/// `CUpti_Profiler_Host_Initialize_Params` behind the last one that is used.
macro_rules! parameters {
    ($type:ident, $last:ident) => {{
        // SAFETY: all its fields are numbers and pointers, for which zero is a value.
        let mut parameters: cupti::$type = unsafe { std::mem::zeroed() };
        parameters.structSize = offset_of!(cupti::$type, $last) + size_of_val(&parameters.$last);
        parameters
    }};
}

/// Calls one of CUPTI's optional functions with its parameters.
macro_rules! call {
    ($api:expr, $function:ident, $parameters:expr) => {{
        let function = $api.$function.ok_or(CuptiError::NOT_IMPLEMENTED)?;
        // SAFETY: by the contract of `Api::load` the function is what CUPTI's header says; the
        // parameters have the size that they state, and what they point to lives during the call.
        check(unsafe { function(&raw mut $parameters) })
    }};
}

/// When a sample ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// After so many nanoseconds. Turing GPUs and GA100 do not have it.
    TimeNs(u64),
    /// After so many cycles of the GPU's system clock, whose frequency varies.
    Cycles(u64),
}

/// What a device can be asked for.
#[derive(Debug)]
pub struct Chip<'a> {
    api: &'a Api,
    device: u32,
    description: Arc<Description>,
}

/// What CUPTI is told of a chip. It keeps the addresses, so this lives as long as what was made with it.
#[derive(Debug)]
struct Description {
    name: CString,
    /// Which counters are there, as CUPTI keeps it.
    available: Vec<u8>,
}

/// Metrics that one pass measures together, ready for use.
#[derive(Debug)]
pub struct Metrics<'a> {
    host: Host<'a>,
    names: Vec<CString>,
    /// What the hardware is told, as CUPTI keeps it.
    config: Vec<u8>,
}

/// CUPTI's object that turns metrics into a configuration, and counter data into values.
#[derive(Debug)]
struct Host<'a> {
    api: &'a Api,
    object: *mut cupti::CUpti_Profiler_Host_Object,
    _description: Arc<Description>,
}

/// Sampling on one device. The counters of the device are taken for as long as it lives.
#[derive(Debug)]
pub struct Session<'a> {
    metrics: Metrics<'a>,
    object: *mut cupti::CUpti_PmSampling_Object,
    /// Addresses of the metrics' names.
    names: Vec<*const c_char>,
    image: Vec<u8>,
    started: bool,
}

/// What a call of [`Session::decode`] brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Samples that can be read now, numbered from 0.
    pub samples: usize,
    /// The hardware's buffer was full: samples are missing.
    pub overflowed: bool,
    /// The room for samples was full: more may be there.
    pub is_full: bool,
}

// SAFETY: the handle is only a name for CUPTI, whose functions may be called from any thread.
unsafe impl Send for Host<'_> {}
// SAFETY: as above, and the addresses point into `metrics`, which stays where it is.
unsafe impl Send for Session<'_> {}

impl Api {
    /// Whether this CUPTI has all that sampling needs: 12.6 and later have.
    pub fn has_pm_sampling(&self) -> bool {
        let needed = ["cuptiPmSampling", "cuptiProfiler", "cuptiDeviceGetChipName"];
        !self.absent().iter().any(|name| needed.iter().any(|start| name.starts_with(start)))
    }

    /// What a device can be asked for. `device`: as CUDA numbers it in this process.
    ///
    /// # Errors
    /// [`CuptiError`], for instance where the process may not use counters or another tool does.
    pub fn chip(&self, device: u32) -> Result<Chip<'_>> {
        let mut all = parameters!(CUpti_Profiler_Initialize_Params, pPriv);
        call!(self, profiler_initialize, all)?;
        let mut chip = parameters!(CUpti_Device_GetChipName_Params, pChipName);
        chip.deviceIndex = device as usize;
        call!(self, device_get_chip_name, chip)?;
        if chip.pChipName.is_null() {
            return Err(CuptiError::UNKNOWN);
        }
        // SAFETY: CUPTI gives a text that ends in NUL and stays.
        let name = unsafe { CStr::from_ptr(chip.pChipName) }.to_owned();
        let mut image =
            parameters!(CUpti_PmSampling_GetCounterAvailability_Params, pCounterAvailabilityImage);
        image.deviceIndex = device as usize;
        call!(self, pm_sampling_get_counter_availability, image)?;
        let mut available = vec![0; image.counterAvailabilityImageSize];
        image.pCounterAvailabilityImage = available.as_mut_ptr();
        call!(self, pm_sampling_get_counter_availability, image)?;
        Ok(Chip { api: self, device, description: Arc::new(Description { name, available }) })
    }
}

impl<'a> Chip<'a> {
    /// The chip as CUPTI names it, for instance `GH100`.
    pub fn name(&self) -> &CStr {
        &self.description.name
    }

    /// Metrics that are to be measured together, and in how many passes that is possible; sampling
    /// can do one.
    ///
    /// # Errors
    /// [`CuptiError`], for instance where the chip does not know one of them.
    pub fn metrics(&self, names: &[&CStr]) -> Result<(Metrics<'a>, usize)> {
        let mut host = parameters!(CUpti_Profiler_Host_Initialize_Params, pHostObject);
        host.profilerType = cupti::CUPTI_PROFILER_TYPE_PM_SAMPLING;
        host.pChipName = self.description.name.as_ptr();
        host.pCounterAvailabilityImage = self.description.available.as_ptr();
        call!(self.api, profiler_host_initialize, host)?;
        let _description = Arc::clone(&self.description);
        let host = Host { api: self.api, object: host.pHostObject, _description };

        let mut addresses: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut add = parameters!(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
        add.pHostObject = host.object;
        add.ppMetricNames = addresses.as_mut_ptr();
        add.numMetrics = addresses.len();
        call!(self.api, profiler_host_config_add_metrics, add)?;
        let mut size = parameters!(CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
        size.pHostObject = host.object;
        call!(self.api, profiler_host_get_config_image_size, size)?;
        let mut config = vec![0; size.configImageSize];
        let mut image = parameters!(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
        image.pHostObject = host.object;
        image.configImageSize = config.len();
        image.pConfigImage = config.as_mut_ptr();
        call!(self.api, profiler_host_get_config_image, image)?;
        let mut passes = parameters!(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
        passes.configImageSize = config.len();
        passes.pConfigImage = config.as_mut_ptr();
        call!(self.api, profiler_host_get_num_of_passes, passes)?;
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Ok((Metrics { host, names, config }, passes.numOfPasses))
    }

    /// Takes the counters of the device and sets them up for these metrics.
    /// `hardware_bytes`: room on the device for what was not decoded yet; `samples`: room for those
    /// that one call of [`Session::decode`] may bring.
    ///
    /// # Errors
    /// [`CuptiError`], for instance `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`, or `INVALID_OPERATION`
    /// where the device is sampled already.
    pub fn open(
        &self,
        metrics: Metrics<'a>,
        trigger: Trigger,
        hardware_bytes: usize,
        samples: u32,
    ) -> Result<Session<'a>> {
        let mut enable = parameters!(CUpti_PmSampling_Enable_Params, pPmSamplingObject);
        enable.deviceIndex = self.device as usize;
        call!(self.api, pm_sampling_enable, enable)?;
        let names = metrics.names.iter().map(|name| name.as_ptr()).collect();
        let object = enable.pPmSamplingObject;
        // From here on an error gives the counters back.
        let mut session = Session { metrics, object, names, image: Vec::new(), started: false };
        session.set_trigger(trigger, hardware_bytes)?;
        session.make_room(samples)?;
        Ok(session)
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let Some(deinitialize) = self.api.profiler_host_deinitialize else { return };
        let mut parameters = parameters!(CUpti_Profiler_Host_Deinitialize_Params, pHostObject);
        parameters.pHostObject = self.object;
        // SAFETY: as in `call!`; the object is used no more. A failure has no one to go to.
        let _ = unsafe { deinitialize(&raw mut parameters) };
    }
}

impl Session<'_> {
    /// Sets when samples end, while sampling is stopped.
    ///
    /// # Errors
    /// [`CuptiError`], for instance for a trigger that the chip does not have.
    fn set_trigger(&mut self, trigger: Trigger, hardware_bytes: usize) -> Result<()> {
        let mut config = parameters!(CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
        config.pPmSamplingObject = self.object;
        config.configSize = self.metrics.config.len();
        config.pConfig = self.metrics.config.as_ptr();
        config.hardwareBufferSize = hardware_bytes;
        (config.triggerMode, config.samplingInterval) = match trigger {
            Trigger::TimeNs(ns) => (cupti::CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL, ns),
            Trigger::Cycles(n) => (cupti::CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL, n),
        };
        config.hwBufferAppendMode =
            cupti::CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST;
        let set = call!(self.metrics.host.api, pm_sampling_set_config, config);
        if set != Err(CuptiError::INVALID_PARAMETER) {
            return set;
        }
        // CUPTI 12.6 has no append mode, and refuses parameters that are longer than its own.
        config.structSize =
            offset_of!(cupti::CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
        call!(self.metrics.host.api, pm_sampling_set_config, config)
    }

    /// Makes room for the samples that one call of [`Session::decode`] may bring.
    fn make_room(&mut self, samples: u32) -> Result<()> {
        let mut size = parameters!(CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize);
        size.pPmSamplingObject = self.object;
        size.pMetricNames = self.names.as_mut_ptr();
        size.numMetrics = self.names.len();
        size.maxSamples = samples;
        call!(self.metrics.host.api, pm_sampling_get_counter_data_size, size)?;
        self.image = vec![0; size.counterDataSize];
        self.clear()
    }

    /// Starts sampling.
    pub fn start(&mut self) -> Result<()> {
        let mut start = parameters!(CUpti_PmSampling_Start_Params, pPmSamplingObject);
        start.pPmSamplingObject = self.object;
        call!(self.metrics.host.api, pm_sampling_start, start)?;
        self.started = true;
        Ok(())
    }

    /// Stops sampling. What was sampled until then can still be decoded.
    pub fn stop(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.started) {
            return Ok(());
        }
        let mut stop = parameters!(CUpti_PmSampling_Stop_Params, pPmSamplingObject);
        stop.pPmSamplingObject = self.object;
        call!(self.metrics.host.api, pm_sampling_stop, stop)
    }

    /// Fetches what the hardware has sampled. The samples of the call before are gone.
    ///
    /// # Errors
    /// [`CuptiError`], for instance `CUPTI_ERROR_OUT_OF_MEMORY` where the hardware's buffer was full.
    pub fn decode(&mut self) -> Result<Decoded> {
        let mut decode = parameters!(CUpti_PmSampling_DecodeData_Params, overflow);
        decode.pPmSamplingObject = self.object;
        decode.pCounterDataImage = self.image.as_mut_ptr();
        decode.counterDataImageSize = self.image.len();
        call!(self.metrics.host.api, pm_sampling_decode_data, decode)?;
        let mut info = parameters!(CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples);
        info.pCounterDataImage = self.image.as_ptr();
        info.counterDataImageSize = self.image.len();
        call!(self.metrics.host.api, pm_sampling_get_counter_data_info, info)?;
        Ok(Decoded {
            samples: info.numCompletedSamples,
            overflowed: decode.overflow != 0,
            is_full: decode.decodeStopReason
                == cupti::CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL,
        })
    }

    /// Start and end of a sample on CUPTI's clock, ns.
    ///
    /// # Errors
    /// [`CuptiError`], for instance for a number that the last decoding did not reach.
    pub fn span_ns(&self, sample: usize) -> Result<(u64, u64)> {
        let mut info = parameters!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp);
        info.pPmSamplingObject = self.object;
        info.pCounterDataImage = self.image.as_ptr();
        info.counterDataImageSize = self.image.len();
        info.sampleIndex = sample;
        call!(self.metrics.host.api, pm_sampling_counter_data_get_sample_info, info)?;
        Ok((info.startTimestamp, info.endTimestamp))
    }

    /// The values of a sample, in the order of the metrics.
    ///
    /// # Errors
    /// [`CuptiError`]; `values` has to hold as many as there are metrics.
    pub fn values(&mut self, sample: usize, values: &mut [f64]) -> Result<()> {
        if values.len() != self.names.len() {
            return Err(CuptiError::UNKNOWN);
        }
        let mut evaluate =
            parameters!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);
        evaluate.pHostObject = self.metrics.host.object;
        evaluate.pCounterDataImage = self.image.as_ptr();
        evaluate.counterDataImageSize = self.image.len();
        evaluate.rangeIndex = sample;
        evaluate.ppMetricNames = self.names.as_mut_ptr();
        evaluate.numMetrics = self.names.len();
        evaluate.pMetricValues = values.as_mut_ptr();
        call!(self.metrics.host.api, profiler_host_evaluate_to_gpu_values, evaluate)
    }

    /// Empties the room for samples: without this [`Session::decode`] adds to those that are there.
    pub fn clear(&mut self) -> Result<()> {
        let mut empty =
            parameters!(CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData);
        empty.pPmSamplingObject = self.object;
        empty.counterDataSize = self.image.len();
        empty.pCounterData = self.image.as_mut_ptr();
        call!(self.metrics.host.api, pm_sampling_counter_data_image_initialize, empty)
    }
}

impl Drop for Session<'_> {
    /// Gives the counters back.
    fn drop(&mut self) {
        // Failures have no one to go to.
        let _ = self.stop();
        let Some(disable) = self.metrics.host.api.pm_sampling_disable else { return };
        let mut parameters = parameters!(CUpti_PmSampling_Disable_Params, pPmSamplingObject);
        parameters.pPmSamplingObject = self.object;
        // SAFETY: as in `call!`; the object is used no more.
        let _ = unsafe { disable(&raw mut parameters) };
    }
}
