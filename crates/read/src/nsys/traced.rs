//! What an export says that nsys was told to record.

/// What was asked for. None: the file does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// CUDA: kernels, copies and calls.
    pub cuda: Option<bool>,
    /// NVTX.
    pub nvtx: Option<bool>,
    /// NVTX ranges of some domains only.
    pub domains_chosen: bool,
    /// The capture began with something else than the workload.
    pub gated: bool,
}

impl Traced {
    /// Takes a row of the table `META_DATA_CAPTURE`. Of several processes one suffices.
    pub(super) fn take(&mut self, name: &str, value: &str) {
        let field = match name.rsplit_once(':').map_or(name, |(_, field)| field) {
            "COLLECT_CUDA_TRACE" => &mut self.cuda,
            "COLLECT_NVTX_TRACE" => &mut self.nvtx,
            "NVTX_DOMAIN_FILTER_STRING" => {
                self.domains_chosen |= !value.is_empty();
                return;
            }
            "START_TRIGGER" => {
                self.gated |= value != "Immediate";
                return;
            }
            _ => return,
        };
        if let Ok(value) = value.parse::<bool>() {
            *field = Some(field.unwrap_or(false) || value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_an_export_are_understood_and_others_say_nothing() {
        let mut traced = Traced::default();
        traced.take("RATE_HZ", "0");
        traced.take("PROCESS_0:COLLECT_CUDA_TRACE", "maybe");
        assert_eq!(traced, Traced::default());
        traced.take("PROCESS_0:COLLECT_CUDA_TRACE", "false");
        traced.take("PROCESS_0:COLLECT_NVTX_TRACE", "true");
        traced.take("PROCESS_1:COLLECT_NVTX_TRACE", "false");
        traced.take("NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING", "");
        traced.take("START_TRIGGER", "Immediate");
        let expected = Traced { cuda: Some(false), nvtx: Some(true), ..Traced::default() };
        assert_eq!(traced, expected);
        traced.take("NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING", "LLM");
        traced.take("START_TRIGGER", "Manual");
        assert!(traced.domains_chosen && traced.gated);
    }
}
