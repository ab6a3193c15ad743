//! How much memory a record takes, for those that keep many of them.

use crate::trace::record::{Field, Record};
use crate::trace::time::GpuNs;

impl Record {
    /// Bytes of memory that the record takes with its strings and lists, without what an allocator adds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let apart = match self {
            Self::Meta { key, value } => key.len() + value.len(),
            Self::Name { bytes, .. } => bytes.len(),
            Self::Thread { name, .. } => name.len(),
            Self::Device(device) => device.name.len(),
            Self::End { reason } => reason.len(),
            Self::RangeFields { fields, .. } => fields.len() * size_of::<Field>(),
            Self::CounterSamples(samples) => {
                samples.spans.len() * size_of::<(GpuNs, GpuNs)>()
                    + samples.values.len() * size_of::<f64>()
            }
            Self::CounterSet(set) => strings(&set.metrics),
            Self::Process(process) => {
                process.host.len()
                    + process.exe.len()
                    + process.collector.len()
                    + strings(&process.argv)
            }
            Self::Anchor(_)
            | Self::Queue(_)
            | Self::Shape(_)
            | Self::Path(_)
            | Self::RangeOpen(_)
            | Self::RangeClose { .. }
            | Self::RangeSample { .. }
            | Self::Mark(_)
            | Self::Work(_)
            | Self::GraphNode { .. }
            | Self::DeviceState(_)
            | Self::Losses(_) => 0,
        };
        size_of::<Self>() + apart
    }
}

fn strings(strings: &[String]) -> usize {
    strings.iter().map(|string| size_of::<String>() + string.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::record::CounterSamples;

    #[test]
    fn a_record_takes_what_it_holds() {
        let samples = CounterSamples {
            set: 1,
            spans: vec![(GpuNs(1), GpuNs(2)); 100],
            values: vec![0.0; 900],
        };
        let bytes = Record::CounterSamples(samples).held_bytes();
        assert_eq!(bytes, size_of::<Record>() + 100 * 16 + 900 * 8);
        let bytes = Record::Name { id: 1, bytes: vec![b'k'; 5_000] }.held_bytes();
        assert_eq!(bytes, size_of::<Record>() + 5_000);
    }
}
