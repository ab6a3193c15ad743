//! What a kernel costs the thread that summarises: `cargo bench -p stage2-summary`.

use divan::counter::ItemsCount;
use stage2_contract::trace::{
    Anchor, GpuNs, GpuWork, MonoNs, Path, Queue, RangeOpen, Record, Shape, WallNs, What,
};
use stage2_summary::Summariser;

const KERNELS: u64 = 200_000;
/// Kernels of a step.
const STEP: u64 = 500;

fn main() {
    divan::main();
}

/// Steps of decode, of which every fiftieth kernel is a collective.
fn records() -> Vec<Record> {
    let name = |id: u32, text: &str| Record::Name { id, bytes: text.into() };
    let anchor = Anchor { gpu: GpuNs(1_000), mono: MonoNs(1_000), wall: WallNs(1 << 60) };
    let mut all = vec![
        Record::Anchor(anchor),
        Record::Queue(Queue { id: 1, ..Queue::default() }),
        name(1, "decode"),
        name(2, "sm90_xmma_gemm_bf16"),
        name(3, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        Record::Path(Path { id: 1, name: 1, ..Path::default() }),
        Record::Shape(Shape { id: 1, name: 2, ..Shape::default() }),
        Record::Shape(Shape { id: 2, name: 3, ..Shape::default() }),
    ];
    for number in 0..KERNELS {
        let (at, range) = (2_000 + number * 5_000, 1 + number / STEP);
        if number % STEP == 0 {
            let start = MonoNs(at);
            let open = RangeOpen { range, path: 1, thread: 1, start, ..RangeOpen::default() };
            all.push(Record::RangeOpen(open));
        }
        let shape = if number % 50 == 49 { 2 } else { 1 };
        let (start, end) = (GpuNs(at + 100), GpuNs(at + 4_000));
        let work = GpuWork::new(What::Kernel { shape });
        let correlation = number + 1;
        all.push(Record::Work(GpuWork { start, end, range, correlation, queue: 1, ..work }));
        if number % STEP == STEP - 1 {
            all.push(Record::RangeClose { range, end: MonoNs(at + 4_500) });
        }
    }
    all
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn kernels(bencher: divan::Bencher) {
    let records = records();
    bencher.counter(ItemsCount::new(KERNELS)).bench(|| {
        let mut summariser = Summariser::default();
        records.iter().for_each(|record| summariser.take(record));
        summariser.finish();
        summariser.ready().count()
    });
}
