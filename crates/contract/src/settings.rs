//! Settings of the collector -> values: the launcher accepts exactly what the collector can read.

use std::ops::RangeInclusive;

/// `STAGE2_BUFFERS`, in words.
pub const BUFFERS_FORM: &str = "bytes in all, e.g. 64M, from 1M to 4G; or SIZE*COUNT, e.g. 1M*24, with 64K to \
     256M a buffer, 2 to 1024 buffers, 4G in all";
/// `STAGE2_SAMPLE`, in words.
pub const SAMPLE_FORM: &str = "1/N with N from 1 to 1000000, e.g. 1/16";
/// `STAGE2_FLUSH_MS`, in words.
pub const FLUSH_MS_FORM: &str = "milliseconds from 10 to 3600000";
/// `STAGE2_FLUSH_MS`, milliseconds.
pub const FLUSH_MS: RangeInclusive<u64> = 10..=3_600_000;

const BUFFER_BYTES: RangeInclusive<usize> = 64 << 10..=256 << 20;
const BUFFER_COUNT: RangeInclusive<usize> = 2..=1024;
const ALL_BUFFERS_BYTES: RangeInclusive<usize> = 1 << 20..=4 << 30;
const ONE_IN: RangeInclusive<u32> = 1..=1_000_000;

/// `STAGE2_COUNTERS`, in words.
pub const COUNTERS_FORM: &str = "off, on, or up to 32 comma-separated metrics of CUPTI, e.g. \
     dram__bytes_read.sum; with @ and 10 to 1000000 microseconds behind, e.g. on@100, samples of that \
     length are taken without a pause";

/// `STAGE2_CUPTI_API`, in words.
pub const CUPTI_API_FORM: &str = "auto, v1 or v2";

/// Which of CUPTI's two activity APIs brings the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CuptiApi {
    /// The collector chooses.
    #[default]
    Auto,
    /// The first one, which every CUPTI has.
    V1,
    /// The second one (CUPTI 13.3 and later), where the CUPTI has it.
    V2,
}

/// What `STAGE2_CUPTI_API` asks for; nothing where the text is not [`CUPTI_API_FORM`].
pub fn read_cupti_api(text: &str) -> Option<CuptiApi> {
    match text {
        "auto" => Some(CuptiApi::Auto),
        "v1" => Some(CuptiApi::V1),
        "v2" => Some(CuptiApi::V2),
        _ => None,
    }
}

/// `STAGE2_HWTRACE`, in words.
pub const HARDWARE_TRACE_FORM: &str = "off or on";

/// Whether `STAGE2_HWTRACE` asks for hardware trace; nothing where the text is not [`HARDWARE_TRACE_FORM`].
pub fn read_hardware_trace(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// `STAGE2_HOST`, in words.
pub const HOST_FORM: &str = "off, on, or a sampling rate of 1 to 1000 Hz";
/// Samples a second of `STAGE2_HOST=on`.
pub const HOST_HZ: u32 = 100;
const HOST_RATES: RangeInclusive<u32> = 1..=1000;

/// How often `STAGE2_HOST` has the guest's threads sampled, Hz, if at all; nothing where the text is not
/// [`HOST_FORM`].
pub fn read_host(text: &str) -> Option<Option<u32>> {
    match text {
        "off" => Some(None),
        "on" => Some(Some(HOST_HZ)),
        hz => hz.parse().ok().filter(|hz| HOST_RATES.contains(hz)).map(Some),
    }
}

/// The text of such a rate, 0: `off`.
pub fn host_text(hz: u32) -> String {
    if hz == 0 { "off".to_owned() } else { hz.to_string() }
}

const METRICS: usize = 32;
const METRIC_BYTES: usize = 200;
const INTERVAL_US: RangeInclusive<u32> = 10..=1_000_000;

/// Hardware counters to sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// None are sampled.
    pub off: bool,
    /// Metrics as CUPTI names them, the most important first; none: the collector chooses.
    pub metrics: Vec<String>,
    /// Length of a sample, us. `None`: 100, and with pauses, so that sampling takes little CPU time.
    pub interval_us: Option<u32>,
}

/// What `STAGE2_COUNTERS` asks for; nothing where the text is not [`COUNTERS_FORM`].
pub fn read_counters(text: &str) -> Option<Counters> {
    let (what, interval_us) = match text.split_once('@') {
        Some((what, us)) => (what, Some(us.parse().ok().filter(|us| INTERVAL_US.contains(us))?)),
        None => (text, None),
    };
    let metrics: Vec<String> = match what {
        "off" | "on" => Vec::new(),
        names => names.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    let off = what == "off";
    let sane = metrics.len() <= METRICS
        && metrics.iter().all(|name| is_metric(name))
        && !(off && interval_us.is_some());
    sane.then_some(Counters { off, metrics, interval_us })
}

fn is_metric(name: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "_.".contains(c);
    name.contains("__") && name.len() <= METRIC_BYTES && name.chars().all(known)
}

/// Memory for activity records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// So many bytes in all; the collector chooses sizes and numbers.
    Within {
        /// Bytes of all buffers, whole pages of 4 KiB.
        bytes: usize,
    },
    /// So many buffers of this size.
    Sized {
        /// Bytes of one buffer, whole pages of 4 KiB.
        bytes: usize,
        /// How many.
        count: usize,
    },
}

/// What `STAGE2_BUFFERS` asks for; nothing where the text is not [`BUFFERS_FORM`].
pub fn read_buffers(text: &str) -> Option<Buffers> {
    let Some((size, count)) = text.split_once('*') else {
        let bytes = read_bytes(text).filter(|bytes| ALL_BUFFERS_BYTES.contains(bytes));
        return bytes.map(|bytes| Buffers::Within { bytes: bytes & !4095 });
    };
    let (bytes, count) = (read_bytes(size)?, count.parse::<usize>().ok()?);
    let sane = BUFFER_BYTES.contains(&bytes)
        && BUFFER_COUNT.contains(&count)
        && bytes.checked_mul(count).is_some_and(|total| total <= *ALL_BUFFERS_BYTES.end());
    sane.then_some(Buffers::Sized { bytes: bytes & !4095, count })
}

/// A number of bytes with an optional unit: K, M or G.
pub fn read_bytes(text: &str) -> Option<usize> {
    let units = [("", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
    number_with_unit(&text.to_ascii_lowercase(), &units)?.try_into().ok()
}

/// Digits with one of these units behind.
fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let (_, scale) = units.iter().find(|(known, _)| *known == unit)?;
    digits.parse::<u64>().ok()?.checked_mul(*scale)
}

/// N of `1/N`; nothing where the text is not [`SAMPLE_FORM`].
pub fn read_sample(text: &str) -> Option<u32> {
    text.strip_prefix("1/")?.parse().ok().filter(|n| ONE_IN.contains(n))
}

/// `STAGE2_DETAIL`, in words.
pub const DETAIL_FORM: &str = "records, full, summary or auto";

/// What is kept of ranges and GPU work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Every record.
    #[default]
    Records,
    /// Every record, and a summary of some kilobytes a minute.
    Full,
    /// The summary alone.
    Summary,
    /// The summary, and the records of the first minute and of those around an unusual step.
    Auto,
}

impl Detail {
    /// Whether a summary is written.
    pub fn summarises(self) -> bool {
        self != Self::Records
    }
}

/// What `STAGE2_DETAIL` asks for; nothing where the text is not [`DETAIL_FORM`].
pub fn read_detail(text: &str) -> Option<Detail> {
    match text {
        "records" => Some(Detail::Records),
        "full" => Some(Detail::Full),
        "summary" => Some(Detail::Summary),
        "auto" => Some(Detail::Auto),
        _ => None,
    }
}

/// `STAGE2_ROTATE`, in words.
pub const ROTATE_FORM: &str = "size=SIZE, every=TIME or both, and keep=N, e.g. size=256M,every=10m,keep=8, with \
     64K to 1024G, 10ms to 168h, and 1 to 100000 files";

const PIECE_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 40;
const PIECE_MS: RangeInclusive<u64> = 10..=7 * 24 * 3_600_000;
const PIECES_KEPT: RangeInclusive<usize> = 1..=100_000;

/// When the trace file is cut, and how many pieces of it stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotate {
    /// A piece ends when it has so many bytes.
    pub size: Option<u64>,
    /// A piece ends after so many milliseconds.
    pub every_ms: Option<u64>,
    /// The newest so many pieces stay; none: all.
    pub keep: Option<usize>,
}

/// What `STAGE2_ROTATE` asks for; nothing where the text is not [`ROTATE_FORM`].
pub fn read_rotate(text: &str) -> Option<Rotate> {
    let mut rotate = Rotate::default();
    for word in text.split(',') {
        let (name, value) = word.trim().split_once('=')?;
        match name {
            "size" if rotate.size.is_none() => {
                let bytes = read_bytes(value).and_then(|bytes| u64::try_from(bytes).ok());
                rotate.size = Some(bytes.filter(|bytes| PIECE_BYTES.contains(bytes))?);
            }
            "every" if rotate.every_ms.is_none() => {
                rotate.every_ms = Some(read_ms(value).filter(|ms| PIECE_MS.contains(ms))?);
            }
            "keep" if rotate.keep.is_none() => {
                rotate.keep = Some(value.parse().ok().filter(|keep| PIECES_KEPT.contains(keep))?);
            }
            _ => return None,
        }
    }
    rotate.size.or(rotate.every_ms).map(|_| rotate)
}

/// `STAGE2_WATCH`, in words.
pub const WATCH_FORM: &str = "off, or a time from 1s to 24h, e.g. 60s";

const WATCH_MS: RangeInclusive<u64> = 1_000..=24 * 3_600_000;

/// What `STAGE2_WATCH` asks for, ms; nothing where the text is not [`WATCH_FORM`].
pub fn read_watch(text: &str) -> Option<Option<u64>> {
    match text {
        "off" => Some(None),
        text => read_ms(text).filter(|ms| WATCH_MS.contains(ms)).map(Some),
    }
}

/// A time in milliseconds: seconds, or a number with a unit: ms, s, m or h.
fn read_ms(text: &str) -> Option<u64> {
    number_with_unit(text, &[("ms", 1), ("", 1_000), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_has_a_time_or_is_off() {
        assert_eq!([read_watch("off"), read_watch("60s")], [Some(None), Some(Some(60_000))]);
        assert_eq!([read_watch("500ms"), read_watch("25h"), read_watch("on")], [None; 3]);
    }

    #[test]
    fn pieces_have_a_size_or_an_age_and_may_be_few() {
        let of = |size, every_ms, keep| Some(Rotate { size, every_ms, keep });
        for (text, expected) in [
            ("size=256M", of(Some(256 << 20), None, None)),
            ("every=10m,keep=8", of(None, Some(600_000), Some(8))),
            ("keep=1, size=64K ,every=10", of(Some(64 << 10), Some(10_000), Some(1))),
            ("every=168h", of(None, Some(604_800_000), None)),
            ("every=500ms", of(None, Some(500), None)),
        ] {
            assert_eq!(read_rotate(text), expected, "{text}");
        }
        let refused = "|keep=8|off|size=63K|size=1025G|size=1M,size=2M|every=9ms|every=169h|every=1d|\
                       every=-1s|size=1M,keep=0|size=1M,keep=100001|size=1M,|size=1M,often=yes|size 1M";
        for text in refused.split('|') {
            assert_eq!(read_rotate(text), None, "{text}");
        }
    }

    #[test]
    fn buffers_are_bytes_in_all_or_have_a_size_and_a_number_within_limits() {
        let sized = |bytes, count| Some(Buffers::Sized { bytes, count });
        let within = |bytes| Some(Buffers::Within { bytes });
        for (text, expected) in [
            ("4M*16", sized(4 << 20, 16)),
            ("65537*2", sized(65536, 2)),
            ("256m*16", sized(256 << 20, 16)),
            ("64M", within(64 << 20)),
            ("1048577", within(1 << 20)),
            ("1024k", within(1 << 20)),
            ("4G", within(4 << 30)),
        ] {
            assert_eq!(read_buffers(text), expected, "{text}");
        }
        let refused = "|1023K|5G|64MB|67108864B|-64M|1G*4|256M*17|63K*9|1M*1|1M*1025|4MM*3|1048576B*3|\
                       -4M*3|99999999999G*9|99999999999G|M|*3";
        for text in refused.split('|') {
            assert_eq!(read_buffers(text), None, "{text}");
        }
    }

    #[test]
    fn counters_are_chosen_or_named_with_an_interval_or_without() {
        let on = |metrics: &[&str], interval_us| {
            let metrics = metrics.iter().map(|&name| name.to_owned()).collect();
            Some(Counters { off: false, metrics, interval_us })
        };
        for (text, expected) in [
            ("off", Some(Counters { off: true, ..Counters::default() })),
            ("on", on(&[], None)),
            ("on@100", on(&[], Some(100))),
            ("dram__bytes_read.sum", on(&["dram__bytes_read.sum"], None)),
            ("a__b.sum, c__d.avg@20", on(&["a__b.sum", "c__d.avg"], Some(20))),
        ] {
            assert_eq!(read_counters(text), expected, "{text}");
        }
        let refused = "|off@100|on@9|on@|on@1e3|on,a__b.sum|a__b.sum,|a__b;rm|yes";
        let (many, long) = (vec!["a__b"; 33].join(","), format!("a__{}", "b".repeat(200)));
        for text in refused.split('|').chain([many.as_str(), &long]) {
            assert_eq!(read_counters(text), None, "{text}");
        }
    }

    #[test]
    fn the_host_is_sampled_or_not_or_so_many_times_a_second() {
        let some = ["off", "on", "1", "1000"].map(read_host);
        assert_eq!(some, [Some(None), Some(Some(100)), Some(Some(1)), Some(Some(1000))]);
        for bad in ["", "0", "1001", "-1", "100Hz", "1e2", "ON", " 100"] {
            assert_eq!(read_host(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sample_is_one_in_some() {
        assert_eq!((read_sample("1/1"), read_sample("1/1000000")), (Some(1), Some(1_000_000)));
        for bad in ["", "1", "1/", "1/0", "2/3", "1/1000001", "1/-1", "1/ 4"] {
            assert_eq!(read_sample(bad), None, "{bad}");
        }
    }
}
