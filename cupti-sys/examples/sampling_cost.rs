//! `sampling_cost [INTERVAL_US [METRIC...]]`: what each call of PM sampling costs on the first GPU, and how
//! much memory each metric takes. Copies on the GPU give it something to count. `STAGE2_CUPTI` names the
//! libcupti, as everywhere.

use std::ffi::{CString, c_int, c_void};
use std::time::{Duration, Instant};

use cupti_sys::pm_sampling::{Chip, Trigger};
use cupti_sys::{Api, CuptiError, find};

type Error = Box<dyn std::error::Error>;

const METRICS: &[&str] = &[
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed",
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.sum",
    "pcie__read_bytes.sum",
    "pcie__write_bytes.sum",
    "gpc__cycles_elapsed.max",
    "tpc__warps_active_shader_cs_realtime.sum",
    "nvlrx__bytes.sum",
    "nvltx__bytes.sum",
];

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let interval_us: u64 = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let mut wanted: Vec<String> = arguments.collect();
    if wanted.is_empty() {
        wanted = METRICS.iter().map(|&name| name.to_owned()).collect();
    }
    let gpu = Gpu::open()?;
    let named = std::env::var_os("STAGE2_CUPTI").map(std::path::PathBuf::from);
    let found = find::locate(named.as_deref(), None)?;
    // SAFETY: the library was found as a CUPTI, and the driver is there.
    let api = unsafe { Api::load(found.library) }?;
    println!("CUPTI {} at {}", api.version()?, api.path().display());
    let begin = Instant::now();
    let chip = api.chip(0)?;
    println!("chip {:?}, {:.1} ms", chip.name(), ms(begin));
    let begin = Instant::now();
    let chosen = choose(&chip, &wanted)?;
    println!("{} of {} metrics in one pass, {:.1} ms", chosen.len(), wanted.len(), ms(begin));
    for name in &chosen {
        let (metrics, _) = chip.metrics(&[name])?;
        let session =
            chip.open(metrics, Trigger::TimeNs(interval_us * 1000), hardware_bytes(), 100)?;
        println!("  {} bytes a sample alone: {name:?}", session.room_bytes() / 100);
    }
    println!("{}", memory());
    for room in [64, 256, 1024] {
        measure(&gpu, &chip, &chosen, interval_us, room)?;
    }
    Ok(())
}

fn choose(chip: &Chip<'_>, wanted: &[String]) -> Result<Vec<CString>, Error> {
    let mut chosen: Vec<CString> = Vec::new();
    for name in wanted {
        chosen.push(CString::new(name.as_str())?);
        let names: Vec<_> = chosen.iter().map(CString::as_c_str).collect();
        match chip.metrics(&names) {
            Ok((_, 1)) => {}
            other => {
                println!("  not {name}: {:?}", other.map(|(_, passes)| passes));
                chosen.pop();
            }
        }
    }
    Ok(chosen)
}

/// Samples for two seconds, and says what each part took.
fn measure(
    gpu: &Gpu,
    chip: &Chip<'_>,
    chosen: &[CString],
    interval_us: u64,
    room: u32,
) -> Result<(), Error> {
    let names: Vec<_> = chosen.iter().map(CString::as_c_str).collect();
    let begin = Instant::now();
    let (metrics, _) = chip.metrics(&names)?;
    let trigger = Trigger::TimeNs(interval_us * 1000);
    let mut session = chip.open(metrics, trigger, hardware_bytes(), room)?;
    let opened = ms(begin);
    let begin = Instant::now();
    session.start()?;
    println!(
        "room for {room}: {} bytes a sample; open {opened:.1} ms, start {:.1} ms",
        session.room_bytes() / room as usize,
        ms(begin)
    );
    let mut cost = [Duration::ZERO; 4];
    let mut values = vec![0.0; names.len()];
    let (mut samples, mut overflows, mut decodes, mut sums) = (0, 0, 0, vec![0.0; names.len()]);
    let (begin, cpu) = (Instant::now(), cpu_time());
    while begin.elapsed() < Duration::from_secs(2) {
        gpu.copy()?;
        let decoded = timed(&mut cost[0], || session.decode())?;
        decodes += 1;
        overflows += usize::from(decoded.overflowed);
        for sample in 0..decoded.samples {
            timed(&mut cost[1], || session.span_ns(sample))?;
            timed(&mut cost[2], || session.values(sample, &mut values))?;
            sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
        }
        samples += decoded.samples;
        timed(&mut cost[3], || session.clear())?;
        if !decoded.is_full {
            std::thread::sleep(Duration::from_micros(interval_us * u64::from(room) / 2));
        }
    }
    let (seconds, cpu) = (begin.elapsed().as_secs_f64(), cpu_time() - cpu);
    let begin = Instant::now();
    session.stop()?;
    println!(
        "  {samples} samples, {decodes} decodings, {overflows} overflows, CPU {:.1} % of a core; us a \
         sample: decode {:.2}, span {:.2}, values {:.2}, clear {:.2}; stop {:.1} ms",
        100.0 * cpu / seconds,
        per(cost[0], samples),
        per(cost[1], samples),
        per(cost[2], samples),
        per(cost[3], samples),
        ms(begin),
    );
    println!("  {}", memory());
    for (name, sum) in names.iter().zip(sums) {
        println!("    {name:?} {sum:.4e}");
    }
    Ok(())
}

fn timed<T>(
    cost: &mut Duration,
    call: impl FnOnce() -> Result<T, CuptiError>,
) -> Result<T, CuptiError> {
    let begin = Instant::now();
    let result = call();
    *cost += begin.elapsed();
    result
}

fn per(cost: Duration, samples: usize) -> f64 {
    cost.as_secs_f64() * 1e6 / samples.max(1) as f64
}

fn ms(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

/// Room on the GPU's side, from `HARDWARE_KB`.
fn hardware_bytes() -> usize {
    let given = std::env::var("HARDWARE_KB").ok().and_then(|text| text.parse::<usize>().ok());
    given.unwrap_or(16 << 10) << 10
}

/// The memory of this process.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("Rss") || line.starts_with("VmLck"));
    lines.collect::<Vec<_>>().join(", ").replace('\t', " ")
}

/// Seconds of CPU that this thread has used.
fn cpu_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The first GPU, with memory to copy.
struct Gpu {
    driver: libloading::Library,
    memory: u64,
}

const BYTES: usize = 256 << 20;

impl Gpu {
    fn open() -> Result<Self, Error> {
        // SAFETY: the driver's functions have had these types since CUDA 4.
        unsafe {
            let driver = libloading::Library::new("libcuda.so.1")?;
            type Init = unsafe extern "C" fn(u32) -> c_int;
            type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
            type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_int;
            type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_int;
            let (mut context, mut memory) = (std::ptr::null_mut(), 0);
            succeed(driver.get::<Init>(b"cuInit\0")?(0))?;
            succeed(driver.get::<Retain>(b"cuDevicePrimaryCtxRetain\0")?(&raw mut context, 0))?;
            succeed(driver.get::<SetCurrent>(b"cuCtxSetCurrent\0")?(context))?;
            succeed(driver.get::<Alloc>(b"cuMemAlloc_v2\0")?(&raw mut memory, BYTES))?;
            Ok(Gpu { driver, memory })
        }
    }

    /// Has one half of the memory copied onto the other.
    fn copy(&self) -> Result<(), Error> {
        type Copy = unsafe extern "C" fn(u64, u64, usize, *mut c_void) -> c_int;
        let half = BYTES / 2;
        // SAFETY: as above; both halves are ours.
        succeed(unsafe {
            self.driver.get::<Copy>(b"cuMemcpyDtoDAsync_v2\0")?(
                self.memory,
                self.memory + half as u64,
                half,
                std::ptr::null_mut(),
            )
        })
    }
}

fn succeed(code: c_int) -> Result<(), Error> {
    if code == 0 { Ok(()) } else { Err(format!("the CUDA driver answers {code}").into()) }
}
