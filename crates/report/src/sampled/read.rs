//! A trace file with samples -> its samples, the windows of its work, the kinds of that, and which samples hold
//! what.

use std::ops::Range;

use crate::sampled::store::{MAX_VALUES, Store};
use crate::sampled::windows::{Owners, Windows};
use rustc_hash::FxHashMap;
use stage2_contract::text::kernel_name;
use stage2_contract::trace::{GpuWork, ReadError, Record, What};
use stage2_counter_fit::{Kernel, Kinds};
use stage2_read::kernel_class::class_of;
use stage2_read::threads::{Batches, read_ahead};
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::libraries::RangeNames;
use stage2_read::trace::placed::{Placing, WorkPlace};

/// What the passes over a file give.
#[derive(Debug, Default)]
pub(super) struct SampledFile {
    pub(super) store: Store,
    pub(super) windows: Windows,
    /// Of each series of `store`.
    pub(super) held: Vec<SampleContents>,
    /// Kinds of work on the GPU of each series.
    pub(super) kinds: Vec<Kinds>,
    /// Most other processes on each GPU, where the driver says.
    pub(super) other_processes: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
pub(super) struct SampleContents {
    pub(super) owners: Owners,
    /// Work of any kind.
    pub(super) work: Vec<bool>,
    /// Work of no stage, while the window of a stage was open.
    pub(super) beside: Vec<bool>,
}

/// Reads the file twice: the windows say which work lies next to them.
pub(super) fn file(
    process: &ProcessCapture,
    libraries: &RangeNames,
) -> Result<SampledFile, ReadError> {
    let mut file = SampledFile { store: Store::with_limit(MAX_VALUES), ..SampledFile::default() };
    let SampledFile { store, windows, other_processes, .. } = &mut file;
    for_each(process, libraries, |item| match item {
        Item::Work(work) => windows.add(work.device, work.place, (work.start, work.end)),
        Item::Other(Record::CounterSet(set)) => store.define(&set),
        Item::Other(Record::CounterSamples(samples)) => store.add(&samples),
        Item::Other(Record::DeviceState(state)) => {
            let Some(others) = state.other_processes else { return };
            match other_processes.iter_mut().find(|(device, _)| *device == state.device) {
                Some((_, most)) => *most = others.max(*most),
                None => other_processes.push((state.device, others)),
            }
        }
        Item::Other(_) => {}
    })?;
    file.store = std::mem::take(&mut file.store).finish();
    if process.gated {
        for series in &mut file.store.series {
            series.only_within(&file.windows.parts(series.device));
        }
    }
    let mut marks: Vec<[Marks; 2]> = Vec::new();
    let mut kinds: Vec<Kinds> = file.store.series.iter().map(|_| Kinds::default()).collect();
    for series in &file.store.series {
        let owners = Owners::of(&file.windows.stages(series.device));
        file.held.push(SampleContents { owners, ..SampleContents::default() });
        marks.push([0; 2].map(|_: i32| Marks::new(series.spans.len())));
    }
    let mut near = vec![0; file.store.series.len()];
    for_each(process, libraries, |item| {
        let Item::Work(work) = item else { return };
        let each = file.store.series.iter().zip(&file.held).zip(&mut marks).zip(&mut kinds);
        for ((((series, held), [any, beside]), kinds), near) in each.zip(&mut near) {
            if series.device != work.device {
                continue;
            }
            let (start, end) = (work.start, work.end);
            kinds.add(&kernel(&work, &held.owners));
            any.mark(series.during(start, end, near));
            let segment = held.owners.segments.get(held.owners.first_after(start));
            if let Some(segment) = segment.filter(|s| work.place.stage.is_none() && s.start < end) {
                beside.mark(series.during(start.max(segment.start), end, near));
            }
        }
    })?;
    for (held, [any, beside]) in file.held.iter_mut().zip(marks) {
        (held.work, held.beside) = (any.finish(), beside.finish());
    }
    file.kinds = kinds;
    Ok(file)
}

/// Work with times.
pub(super) struct PlacedWork {
    pub(super) device: u32,
    pub(super) place: WorkPlace,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Its kind, and the class of that.
    pub(super) kind: (u32, u32),
}

/// Work as the fit takes it: a step is what the stage calls so, or an instance of it.
pub(super) fn kernel(work: &PlacedWork, owners: &Owners) -> Kernel {
    let stage = work.place.stage;
    let known = stage.and_then(|(path, _)| owners.stages.iter().position(|stage| *stage == path));
    Kernel {
        start_ns: work.start,
        end_ns: work.end,
        stage: known.map(|stage| stage as u32),
        kind: work.kind.0,
        class: work.kind.1,
        step: work.place.step.or(stage).map(|(_, number)| number),
    }
}

pub(super) enum Item {
    Work(PlacedWork),
    /// [`Record::CounterSet`], [`Record::CounterSamples`] or [`Record::DeviceState`].
    Other(Record),
}

/// Gives the kinds of the work. Reading takes as long as what is done with it, so that it has its own
/// thread.
pub(super) fn for_each(
    process: &ProcessCapture,
    libraries: &RangeNames,
    each: impl FnMut(Item),
) -> Result<KindTable, ReadError> {
    read_ahead(|batches| place(process, libraries, batches), each)
}

/// Reads to the end, or until nobody listens. What is behind damage that ends the file is left out, as in
/// the first pass, which reports it.
fn place(
    process: &ProcessCapture,
    libraries: &RangeNames,
    batches: &mut Batches<'_, Item>,
) -> Result<KindTable, ReadError> {
    let mut kinds = KindTable::default();
    let mut placing = {
        let whole = process.whole.as_ref().map(|whole| whole.path);
        Placing::new(libraries, whole, process.joined.clone())
    };
    for record in process.trace()?.map_while(Result::ok) {
        let bytes = record.held_bytes();
        let item = match record {
            Record::Work(work) => placed(&work, &placing, &mut kinds, process).map(Item::Work),
            Record::CounterSet(_) | Record::CounterSamples(_) | Record::DeviceState(_) => {
                Some(Item::Other(record))
            }
            other => {
                placing.take(&other);
                None
            }
        };
        if item.is_some_and(|item| !batches.push(item, bytes)) {
            break;
        }
    }
    Ok(kinds)
}

/// Work that has times and a GPU.
fn placed(
    work: &GpuWork,
    placing: &Placing,
    kinds: &mut KindTable,
    process: &ProcessCapture,
) -> Option<PlacedWork> {
    let (start, end) = (work.start.0, work.end.0);
    if start == 0 || end < start {
        return None;
    }
    let device = placing.device(work)?;
    let (place, kind) = (placing.place(work), kinds.number(work, placing, process));
    Some(PlacedWork { device, place, start, end, kind })
}

/// Which samples were marked; a mark costs the same however many samples it is for.
#[derive(Debug)]
struct Marks(Vec<i64>);

impl Marks {
    fn new(samples: usize) -> Self {
        Self(vec![0; samples + 1])
    }

    fn mark(&mut self, samples: Range<usize>) {
        if !samples.is_empty()
            && let Some([begin, .., last]) = self.0.get_mut(samples.start..=samples.end)
        {
            *begin += 1;
            *last -= 1;
        }
    }

    fn finish(mut self) -> Vec<bool> {
        self.0.pop();
        let mut open = 0;
        let marked = self.0.iter().map(|change| {
            open += change;
            open > 0
        });
        marked.collect()
    }
}

/// What work is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A kernel: the index of its name, its blocks and the threads of a block.
    Kernel(u32, [u32; 3], [u32; 3]),
    /// A kernel that the file does not define.
    Undefined,
    Copy(u8),
    Fill,
    Graph(u32),
}

/// Kinds by number. Every pass over a file gives out the same numbers.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    numbers: FxHashMap<Kind, u32>,
    /// Number, and class that short kinds are fitted together by.
    pub(super) kinds: Vec<(Kind, u32)>,
}

impl KindTable {
    pub(super) fn number(
        &mut self,
        work: &GpuWork,
        placing: &Placing,
        process: &ProcessCapture,
    ) -> (u32, u32) {
        let kind = match work.what {
            What::Kernel { shape } => match placing.shape(shape) {
                Some((shape, Some(name))) => Kind::Kernel(name, shape.grid, shape.block),
                _ => Kind::Undefined,
            },
            What::Copy { kind, .. } => Kind::Copy(kind),
            What::Fill { .. } => Kind::Fill,
            What::Graph { graph } => Kind::Graph(graph),
        };
        let fresh = self.kinds.len() as u32;
        let number = *self.numbers.entry(kind).or_insert(fresh);
        if number == fresh {
            self.kinds.push((kind, class(kind, process)));
        }
        (number, self.kinds.get(number as usize).map_or(0, |(_, class)| *class))
    }
}

/// Kernels by what they do; other work apart from them.
fn class(kind: Kind, process: &ProcessCapture) -> u32 {
    match kind {
        Kind::Kernel(name, ..) => {
            let name = process.names.get(name as usize);
            name.map_or(0, |bytes| class_of(&kernel_name(bytes)) as u32)
        }
        Kind::Undefined => 100,
        Kind::Copy(_) => 101,
        Kind::Fill => 102,
        Kind::Graph(_) => 103,
    }
}
