//! A merged report and the run's own files -> its operators, utilisation and takeaways.

mod caveat;
mod counted;
pub(crate) mod finding_evidence;
mod measurements;
pub(crate) mod sample_basis;
mod unlike;
mod utilisation;
pub mod vision;
pub(crate) mod warm_up;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

pub(crate) use caveat::NO_GROUND;

use crate::inputs::{part, section};
use crate::join::coverage::add_new;
use crate::join::overhead::FEWEST_WARM;
use crate::llm::command_model::{CommandModel, CommandSizes};
use crate::llm::engine_config::EngineConfig;
use crate::llm::flops::StoredWeights;
use crate::llm::hugging_face::HuggingFace;
use crate::llm::mfu::{per_cut_generation, per_generation};
use crate::llm::preset::{Model, ModelPreset, PresetError};
use crate::operators::stage1::{self, Stage1Aggregates, Stage1Source};
use crate::operators::{Annotation, OperatorSettings, Stage1Settings, is_operator, operators};
use crate::roofline::takeaways::{RunMeasurements, takeaways};
use crate::workload_config::{self, FOLDER, Workload};
use crate::{join, sampled};
use serde_json::Value;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{listed, visible, visible_path};
use stage2_contract::trace::window;
use stage2_model::finding::{Id, Severity};
use stage2_model::{
    Absent, Apart, CollectiveRow, Confidence, Dtype, Finding, PathKind, PathRow, Report, Role,
    StageRow, TokenCounts,
};
use stage2_read::roles::{Meant, RoleSettings};

/// Where a workload of the runner's kind writes its files, in the run's folder.
const STAGE1: &str = "stage1";

/// What the pages need beyond the report.
#[derive(Debug, Default)]
pub struct Shown {
    /// Rows of operators.md.
    pub operators_top_n: usize,
    /// Means of the Stage 1 run that the configuration names, else those that the workload wrote.
    pub stage1: Option<Stage1Aggregates>,
    /// They are of this run.
    pub stage1_is_own: bool,
}

/// What a run's files state, for what follows from the rows.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The folder of the run.
    pub run_dir: &'a Path,
    /// The composed configuration; null where it cannot be read.
    pub config: &'a Value,
    /// What the workload was configured with.
    pub workload: &'a Workload,
    /// The command of the collect pass.
    pub argv: &'a [String],
    /// What ranges are to the model.
    pub roles: &'a RoleSettings,
}

/// `based on only 2 warm calls`, of advice on a stage with few warm calls, or none.
pub fn rests_on(row: &StageRow) -> Option<String> {
    let warm = row.host_warm_instances.filter(|warm| (1..FEWEST_WARM).contains(warm));
    let only = || row.only_words().map(|words| format!("based on {words}"));
    warm.map(|warm| format!("based on only {}", counted(warm, "warm call"))).or_else(only)
}

/// A takeaway on a stage with few warm instances, or none, states that: how far they differ is not known.
fn say_what_they_rest_on(report: &mut Report) {
    let few = |row: &StageRow| Some((row.stage.clone(), rests_on(row)?));
    let few: HashMap<String, String> = report.stages.iter().filter_map(few).collect();
    let takeaways = report.insight.takeaways.iter_mut().filter(|told| !told.rule.is_caveat());
    for takeaway in takeaways {
        if let Some(rests_on) = takeaway.stage.as_ref().and_then(|stage| few.get(stage)) {
            takeaway.text.push_str(&format!(" ({rests_on})"));
            takeaway.confidence = Confidence::Low;
        }
    }
}

/// States which outermost ranges are not stages of the model, and which steps were inferred.
pub(crate) fn mark_stages(report: &mut Report, config: &Value, roles: &RoleSettings) {
    // What is wrong with the settings is a finding of `add`.
    let settings: OperatorSettings = section(config, "operators", &mut Vec::new());
    join::steps::explain(report, &settings);
    mark_stage_roles(report, &settings, roles);
}

/// Adds everything, once the stages are marked; gives what the pages need beyond the report, and what the takeaways are drawn from.
pub(crate) fn add(report: &mut Report, context: &Context<'_>) -> (Shown, RunMeasurements) {
    let config = context.config;
    let mut findings = Vec::new();
    let settings: OperatorSettings = section(config, "operators", &mut findings);
    let stage1: Stage1Settings = section(config, "stage1", &mut findings);
    let mut shown = Shown { operators_top_n: settings.top_n, ..Shown::default() };
    findings.extend(annotation_without_ranges(report, &settings));
    findings.extend(unlike::unlike_instances(report));
    findings.extend(warm_up::warm_ups(report));
    let own = stage1::read(&context.run_dir.join(STAGE1), Stage1Source::ThisRun);
    findings.extend(own.findings);
    let mut earlier_tokens = None;
    report.insight.operators = Some(match stage1.run_dir {
        Some(folder) => {
            let earlier = stage1::read(&folder, Stage1Source::Earlier);
            shown.stage1 = earlier.aggregates;
            earlier_tokens = Some((folder, earlier.tokens));
            findings.extend(earlier.findings);
            earlier.operators
        }
        None => {
            (shown.stage1, shown.stage1_is_own) = (own.aggregates, true);
            // Operators that the workload marked have their GPU times, undisturbed.
            let marked = operators(report, &settings);
            let written = !own.operators.rows.is_empty() && marked.absent.is_some();
            if written { own.operators } else { marked }
        }
    });
    let mut tokens = token_counts(context, own.tokens, earlier_tokens.as_ref(), &mut findings);
    let counted = count_decode_steps(report, context.roles)
        .filter(|_| tokens.all.decode_steps.is_none() && report.engine.is_none());
    tokens.all.decode_steps = tokens.all.decode_steps.or(counted.as_ref().map(|found| found.steps));
    let engine = EngineConfig::read(context.run_dir, &mut findings);
    if let Some((run, config)) = report.engine.as_mut().zip(engine.as_ref()) {
        run.engine = Some(config.engine.clone());
        run.version = config.version.as_ref().map(|version| visible(version.as_bytes()));
    }
    let has_gpu = !report.devices.is_empty();
    let command = NamedByCommand::read(context);
    let model = model_of_run(context, &tokens, engine.as_ref(), &command, has_gpu, &mut findings);
    let split = match (&engine, command.sizes()) {
        (Some(engine), _) => Some(engine.gpus()),
        (None, Some((_, sizes))) => sizes.gpus,
        (None, None) => Some(1),
    };
    let mut used = utilisation::model_use(report, config, model, tokens.all, split, &mut findings);
    let assumed = counted.filter(|_| used.model_name.is_some());
    used.numbers.assumptions.extend(assumed.map(|found| found.text));
    findings.extend(tokens.at_most.filter(|_| used.model_name.is_some()));
    findings.extend(used.numbers.findings.iter().cloned());
    let measured = measurements::measurements(report, &used);
    (report.insight.takeaways, report.insight.stage_numbers) = takeaways(&measured);
    say_what_they_rest_on(report);
    sampled::add_flops(report, used.numbers.precision);
    report.insight.utilisation = Some(used);
    add_new(&mut report.findings, findings);
    (shown, measured)
}

/// Tokens of one generation.
struct Tokens {
    /// Those of the configuration, else those that the workload recorded, else those that it was
    /// configured with, else those of the Stage 1 run that the configuration names.
    all: TokenCounts,
    /// Those of the configuration alone.
    said: TokenCounts,
    /// Those that the workload recorded.
    written: TokenCounts,
    /// What to say where decode steps are those that a sequence takes at most.
    at_most: Option<Finding>,
}

/// The token counts that the reports count with. `written`: those that the workload recorded;
/// `earlier`: a Stage 1 run, and its counts.
fn token_counts(
    context: &Context<'_>,
    written: TokenCounts,
    earlier: Option<&(PathBuf, TokenCounts)>,
    findings: &mut Vec<Finding>,
) -> Tokens {
    let said: TokenCounts = section(context.config, "model.tokens", findings);
    let known = said.or(&written);
    let mut all = known.or(&context.workload.tokens());
    let at_most = all.decode_steps.filter(|_| known.decode_steps.is_none()).map(|steps| {
        Id::ModelTokens.found(
            format!("{steps} decode steps per generation is an upper limit, not a count"),
            format!(
                "it is infer.max_new_tokens of {FOLDER}/config.yaml: where sequences ended \
                 earlier, MFU and MBU are too high"
            ),
            "set model.tokens.decode_steps and write the reports again",
        )
    });
    if let Some((folder, counts)) = earlier {
        let with = all.or(counts);
        findings.extend(borrowed_counts(&all, &with, folder));
        all = with;
    }
    Tokens { all, said, written, at_most }
}

/// States which counts of `with` are those of the Stage 1 run in `folder`: nothing shows that this run
/// had as many.
fn borrowed_counts(own: &TokenCounts, with: &TokenCounts, folder: &Path) -> Option<Finding> {
    let counts = [
        ("batch_size", own.batch_size, with.batch_size),
        ("prompt_tokens", own.prompt_tokens, with.prompt_tokens),
        ("decode_steps", own.decode_steps, with.decode_steps),
        ("images_per_prompt", own.images_per_prompt, with.images_per_prompt),
        ("crops_per_image", own.crops_per_image, with.crops_per_image),
    ];
    let new = counts.into_iter().filter(|(_, own, with)| own != with);
    let new = new.filter_map(|(name, _, count)| Some(format!("{name} {}", count?)));
    let new: Vec<String> = new.collect();
    let (folder, counts) = (visible_path(folder), new.join(", "));
    (!new.is_empty()).then(|| {
        Id::ModelTokens.found(
            format!("token counts of the Stage 1 run {folder} are used: {counts}"),
            "this run records none; if its counts differ, MFU, MBU and tokens per second are \
             wrong",
            "set these keys of model.tokens to the counts of this run, and write the reports again",
        )
    })
}

/// The model that the command of the workload names, and the findings to report if it is used.
#[derive(Default)]
struct NamedByCommand {
    model: Option<CommandModel>,
    findings: Vec<Finding>,
}

impl NamedByCommand {
    /// Reads the model from the bundle, unless the configuration turns this off.
    fn read(context: &Context<'_>) -> Self {
        if context.config.pointer("/model/from_command") == Some(&Value::Bool(false)) {
            return Self::default();
        }
        let mut findings = Vec::new();
        let model = CommandModel::read(context.run_dir, &mut findings);
        findings.extend(model.iter().flat_map(CommandModel::findings));
        Self { model, findings }
    }

    fn sizes(&self) -> Option<(&CommandModel, &CommandSizes)> {
        let model = self.model.as_ref()?;
        Some((model, model.sizes()?))
    }
}

/// The model that the reports use: the model that the user chose, or else, if there is a GPU, the
/// workload's own model, that of the engine, or the one that the command names. Contradictions
/// between the named model and the model that ran become findings.
fn model_of_run(
    context: &Context<'_>,
    tokens: &Tokens,
    engine: Option<&EngineConfig>,
    command: &NamedByCommand,
    has_gpu: bool,
    findings: &mut Vec<Finding>,
) -> Result<Model, Absent> {
    let Context { config, workload, argv, .. } = *context;
    let preset = part::<ModelPreset>(config, "model.llm");
    let chosen = preset.and_then(|preset| {
        let preset = preset.unwrap_or_default();
        preset.model().map_err(|e| e.to_string()).map(|model| (preset, model))
    });
    let model = chosen.as_ref().ok().and_then(|(_, model)| model.as_ref());
    let manifest = config.pointer("/inputs/manifest").and_then(Value::as_str);
    let Tokens { said, written, .. } = tokens;
    findings.extend(workload_config::contradictions(workload, model, said, written, manifest));
    let appended = config.pointer("/workload/append").and_then(Value::as_array);
    let words = appended.into_iter().flatten().filter_map(Value::as_str);
    let appended: Vec<String> = words.map(str::to_owned).collect();
    findings.extend(workload_config::overrides(workload, argv, &appended));
    findings.extend(nothing_left(context, &appended));
    match chosen {
        Ok((_, Some(model))) => Ok(model),
        Ok((preset, None)) => Some(preset)
            .filter(|_| has_gpu)
            .and_then(|preset| {
                let own = of_workload(context, preset.clone());
                let own = own.or_else(|| of_engine(engine?, preset.clone(), findings));
                own.or_else(|| of_command(command, preset, findings))
            })
            .ok_or(Absent::NoModel),
        Err(problem) => {
            findings.push(Id::ModelInvalid.found(
                problem.clone(),
                "MFU and MBU are absent",
                "correct model.llm and write the reports again",
            ));
            Err(Absent::BadModel { why: problem })
        }
    }
}

/// The workload's own model, where its configuration has the sizes. What `preset` says of types counts.
fn of_workload(context: &Context<'_>, preset: ModelPreset) -> Option<Model> {
    let workload = context.workload;
    let (read, from) = workload.shape()?;
    let name = preset.name.or_else(|| workload.model()).or(read.name);
    let dtype = preset.dtype.or_else(|| workload.dtype()).or(read.dtype);
    let weight_dtype = preset.weight_dtype.or(read.weight_dtype);
    let shape = Some(read.shape);
    let own = ModelPreset { name, dtype, weight_dtype, shape, ..preset };
    let mut model = own.model().ok()??;
    model.assumptions.extend(read.assumptions);
    model.assumptions.push(format!(
        "The sizes are those of {from} in the workload's own configuration ({FOLDER}/config.yaml)."
    ));
    Some(model)
}

/// The model that the engine was configured with. Data types of `preset` take precedence.
fn of_engine(
    engine: &EngineConfig,
    preset: ModelPreset,
    findings: &mut Vec<Finding>,
) -> Option<Model> {
    let read = engine.shape().map_err(|why| {
        findings.push(Id::ModelUnknown.found(
            format!("the model of {} cannot be used: {}", engine.engine, visible(why.as_bytes())),
            "MFU and MBU are absent",
            "name a model whose sizes are known: model/llm=NAME or model.llm.config_json=FOLDER",
        ));
    });
    let read = read.ok()?;
    let path = engine.model.as_ref().map(|path| visible(path.as_bytes()));
    let name = path.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    let found = FoundModel {
        name,
        read,
        stored: None,
        kv_cache_dtype: engine.kv_cache_dtype(),
        gpus: Some(engine.gpus()),
        source: format!(
            "The sizes are those that {} ran with ({})",
            engine.engine,
            path.as_deref().unwrap_or("no name"),
        ),
    };
    found.model(preset, findings)
}

/// The model that the command names. Data types of `preset` take precedence.
fn of_command(
    command: &NamedByCommand,
    preset: ModelPreset,
    findings: &mut Vec<Finding>,
) -> Option<Model> {
    findings.extend(command.findings.iter().cloned());
    let (named, sizes) = command.sizes()?;
    let found = FoundModel {
        name: Some(sizes.name.clone()),
        read: sizes.read.clone(),
        stored: sizes.stored,
        kv_cache_dtype: sizes.kv_cache_dtype,
        gpus: sizes.gpus,
        source: named.source(sizes),
    };
    found.model(preset, findings)
}

/// A model that the user did not choose.
struct FoundModel {
    name: Option<String>,
    read: HuggingFace,
    stored: Option<StoredWeights>,
    kv_cache_dtype: Option<Dtype>,
    /// Number of GPUs that it is split over; `None`: all that run it.
    gpus: Option<u64>,
    /// Where the sizes come from: a sentence without its full stop.
    source: String,
}

impl FoundModel {
    /// Returns the model; values of `preset` take precedence.
    fn model(self, preset: ModelPreset, findings: &mut Vec<Finding>) -> Option<Model> {
        let Self { name, read, stored, kv_cache_dtype, gpus, source } = self;
        let stored = stored.filter(|_| preset.weight_dtype.is_none());
        let own = ModelPreset {
            name: preset.name.or(name).or(read.name),
            dtype: preset.dtype.or(read.dtype),
            weight_dtype: preset.weight_dtype.or(read.weight_dtype),
            kv_cache_dtype: preset.kv_cache_dtype.or(kv_cache_dtype),
            shape: Some(read.shape),
            ..preset
        };
        let unusable = |error: PresetError| {
            findings.push(Id::ModelUnknown.found(
                format!("the model that ran cannot be used: {error}"),
                "MFU and MBU are absent",
                "name a model whose sizes are known: model/llm=NAME or model.llm.config_json=FOLDER",
            ));
        };
        let mut model = own.model().map_err(unusable).ok()??;
        model.stored = stored;
        model.assumptions.extend(read.assumptions);
        let split = match gpus {
            Some(1) => String::new(),
            Some(gpus) => format!(", split over {gpus} GPUs: FLOPs and bytes are per GPU"),
            None => ", split over the GPUs that run it: FLOPs and bytes are per GPU".to_owned(),
        };
        model.assumptions.push(format!("{source}{split}."));
        Some(model)
    }
}

/// What to say of a workload that was run as a Hydra app and left no configuration.
fn nothing_left(context: &Context<'_>, appended: &[String]) -> Option<Finding> {
    let is_hydra = appended.iter().any(|word| word.starts_with("hydra.run.dir="));
    if context.workload.is_known() || !is_hydra || context.argv.is_empty() {
        return None;
    }
    let manifest = context.config.pointer("/inputs/manifest").and_then(Value::as_str);
    let manifest = manifest.map(|path| format!(", nor whether it read inputs.manifest={path}"));
    Some(Id::WorkloadConfigUnread.graded(Severity::Note,
        format!("the workload left no configuration in {FOLDER}"),
        format!(
            "what it was configured with is not known{}: it is not a Hydra app, it ended before, or \
             hydra.run.dir or hydra.output_subdir lead elsewhere",
            manifest.unwrap_or_default()
        ),
        "leave hydra.run.dir and hydra.output_subdir to the preset workload=hydra",
    ))
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CountedSteps {
    steps: u64,
    /// What was counted.
    text: String,
}

/// Steps within the one decode, times the decodes of a prefill. Nothing where these do not divide evenly,
/// where one range around a decode shows no steps, and where requests overlap what serves them: their
/// decodes have no prefill of their own.
fn count_decode_steps(report: &Report, roles: &RoleSettings) -> Option<CountedSteps> {
    let stages = || report.stages.iter().filter(|row| row.apart.is_none());
    let of = |wanted: Role| stages().filter(move |row| row.role == wanted);
    // A range that is there once, such as the capture of a graph, overlaps with none of its kind.
    let overlaps = |row: &StageRow| {
        row.kind == PathKind::Range && row.has_no_gpu_work() && row.instances != Some(1)
    };
    let (mut decodes, mut prefills) = (of(Role::Decode), of(Role::Prefill));
    let (decode, prefill) = (decodes.next()?, prefills.next());
    if decodes.next().is_some() || prefills.next().is_some() || stages().any(overlaps) {
        return None;
    }
    let instances = decode.instances.filter(|instances| *instances > 0)?;
    let decodes = match prefill {
        Some(prefill) => whole(of_prefill(report, decode, prefill)?)?,
        None => 1,
    };
    let (steps, text) = match (steps_within(report, decode, instances, roles), decodes) {
        (Some((stem, within)), 1) => {
            (within, format!("{within} ranges {stem} in the decode of a generation"))
        }
        (Some((stem, within)), _) => {
            let what = format!("{within} ranges {stem} in each of the {decodes} decodes");
            (within.checked_mul(decodes)?, format!("{what} of a generation"))
        }
        (None, 1) => return None,
        (None, _) => (decodes, format!("{decodes}, the calls of decode for each prefill")),
    };
    Some(CountedSteps { steps, text: format!("Decode steps: {text}.") })
}

/// The one kind of ranges right within `decode` that is named a step, and how many an instance holds.
fn steps_within<'r>(
    report: &'r Report,
    decode: &StageRow,
    instances: u64,
    roles: &RoleSettings,
) -> Option<(&'r str, u64)> {
    // Calls that the end of the run or of recording cut have fewer steps.
    let cut = decode.unclosed.unwrap_or(0);
    let is_decode = |row: &PathRow| row.parent.is_none() && row.path == decode.stage;
    let at = report.paths.iter().position(is_decode)?;
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for row in report.paths.iter().filter(|row| row.parent == Some(at)) {
        let stem = row.name.trim_end_matches(|c: char| c.is_ascii_digit());
        if roles.is_step(stem) {
            *counts.entry(stem).or_default() +=
                if cut > 0 { row.in_closed } else { row.instances }?;
        }
    }
    let mut counts = counts.into_iter();
    let (stem, count) = counts.next().filter(|_| counts.next().is_none())?;
    Some((stem, whole(per_generation(count, instances.saturating_sub(cut))?)?))
}

/// How many calls of `row` follow each prefill, which the ends of the run and of windows may have cut.
pub(crate) fn of_prefill(report: &Report, row: &StageRow, prefill: &StageRow) -> Option<f64> {
    let unclosed = [row, prefill].map(|row| row.unclosed.unwrap_or(0));
    let cut = unclosed.into_iter().fold(late_starts(report), u64::saturating_add);
    per_cut_generation(row.instances?, prefill.instances?, cut)
}

/// Windows that began while the process ran, and maybe in the middle of a call.
fn late_starts(report: &Report) -> u64 {
    let processes = report.coverage.processes.iter();
    processes.filter(|process| process.meta.contains_key(window::BEGAN)).count() as u64
}

fn whole(count: f64) -> Option<u64> {
    (count >= 1.0).then_some(count as u64)
}

const NAMED: usize = 8;
/// What `--annotate prefill-decode` opens, in the default domain.
const ANNOTATED: [&str; 2] = ["prefill", "decode"];

/// Marks what each is, and says in the verdict how much of the recorded work belongs to no stage.
fn mark_stage_roles(report: &mut Report, settings: &OperatorSettings, roles: &RoleSettings) {
    let cut = parts_of_cut_calls(report);
    let Report { stages, paths, coverage, .. } = report;
    let outermost = paths.iter().filter(|row| row.parent.is_none());
    let outermost: HashMap<&str, &PathRow> =
        outermost.map(|row| (row.path.as_str(), row)).collect();
    for stage in stages.iter_mut().filter(|stage| stage.kind == PathKind::Range) {
        let Some(range) = outermost.get(stage.stage.as_str()) else { continue };
        match roles.of(&range.name, range.domain.as_deref()) {
            Meant::Apart(apart) => stage.apart = Some(apart),
            Meant::Stage(_) if cut.contains(&stage.stage) => stage.apart = Some(Apart::CutCall),
            Meant::Stage(_) if is_operator(range, settings) => {
                stage.apart = Some(Apart::Operator);
            }
            Meant::Stage(role) => stage.role = role,
        }
    }
    let ranges = paths.iter().filter(|row| row.parent.is_none() && row.kind == PathKind::Range);
    let ranges: Vec<&PathRow> = ranges.collect();
    let unmatched = roles.unmatched(&ranges);
    let unmatched = (!unmatched.is_empty() && !ranges.is_empty()).then(|| {
        let names: Vec<&str> = ranges.iter().map(|row| row.path.as_str()).collect();
        Id::RangesRoleUnmatched.found(
            format!("no outermost range fits {}", listed(&unmatched, NAMED)),
            format!("those that were recorded are {}", listed(&names, NAMED)),
            "correct the patterns of `roles`, and write the reports again",
        )
    });
    let records = |(apart, what): (Apart, &str)| {
        let of_it = stages.iter().filter(|stage| stage.apart == Some(apart));
        let records = of_it.map(gpu_records).fold(0, u64::saturating_add);
        (records > 0).then(|| format!("{} {what}", count(records)))
    };
    let kinds = [
        (Apart::WarmUp, "in warm-up ranges"),
        (Apart::Communication, "in ranges of communication"),
        (Apart::Operator, "in operators that lie in no stage"),
        (Apart::CutCall, "in calls that began before the recording"),
    ];
    let parts: Vec<String> = kinds.into_iter().filter_map(records).collect();
    if !parts.is_empty() {
        let text = &mut coverage.verdict.text;
        text.push_str(&format!("; GPU records outside of the stages: {}", parts.join(", ")));
    }
    report.findings.extend(unmatched);
}

/// Paths of outermost ranges that are inner ranges elsewhere. A recording that begins in the middle of a call has
/// the end of the call without its start, and what the call still opens looks outermost.
fn parts_of_cut_calls(report: &Report) -> HashSet<String> {
    if late_starts(report) == 0 || report.coverage.total.unbalanced_range_ends == 0 {
        return HashSet::new();
    }
    let key = |row: &PathRow| (row.name.clone(), row.domain.clone());
    let is_range = |row: &&PathRow| row.kind == PathKind::Range;
    let (outer, inner): (Vec<&PathRow>, Vec<&PathRow>) =
        report.paths.iter().filter(is_range).partition(|row| row.parent.is_none());
    let inner: HashSet<_> = inner.into_iter().map(key).collect();
    outer.into_iter().filter(|row| inner.contains(&key(row))).map(|row| row.path.clone()).collect()
}

fn gpu_records(stage: &StageRow) -> u64 {
    let records = [stage.kernels, stage.copies, stage.fills, stage.graph_launches];
    records.into_iter().flatten().fold(0, u64::saturating_add)
}

/// The finding for a run with `--annotate prefill-decode` that has none of its ranges. Without a recorded
/// process there is none, because we do not know what ran.
fn annotation_without_ranges(report: &Report, settings: &OperatorSettings) -> Option<Finding> {
    let asked = settings.annotate.contains(&Annotation::PrefillDecode);
    let marked = report.paths.iter().any(|row| {
        let is_range = row.kind == PathKind::Range && row.domain.is_none();
        is_range && ANNOTATED.contains(&row.name.as_str())
    });
    (asked && !report.coverage.processes.is_empty() && !marked).then(|| {
        Id::RangesNotAnnotated.found(
            "--annotate prefill-decode was on, and there is no range prefill or decode",
            "it marks forwards of causal language models of Hugging Face transformers, such as those \
             of `generate`, and none ran in a Python process that it reached",
            "look for lines `stage2:` on the workload's stderr; it needs a workload in Python, a \
             PyTorch built for CUDA, and neither `-I`, `-E` nor `-S`. A model of another kind: open \
             the ranges in the program",
        )
    })
}

// Rows by stage. Of stages there may be as many as rows, so that nothing should look through all rows
// for each of them.

pub(crate) type ByStage<'r, T> = HashMap<&'r str, Vec<&'r T>>;

/// The rows by the stage that they name, in their order.
pub(crate) fn by_stage<'r, T>(
    rows: impl IntoIterator<Item = &'r T>,
    stage: impl Fn(&'r T) -> &'r str,
) -> ByStage<'r, T> {
    let mut found = ByStage::new();
    for row in rows {
        found.entry(stage(row)).or_default().push(row);
    }
    found
}

/// Those of one stage.
pub(crate) fn of_stage<'a, 'r, T>(rows: &'a ByStage<'r, T>, stage: &str) -> &'a [&'r T] {
    rows.get(stage).map_or(&[], Vec::as_slice)
}

/// Part of the time in collectives that must be split into waiting and transfer before exposed
/// communication is, percent.
const NEARLY_ALL_PERCENT: u128 = 95;

/// Waiting and transfer in the collectives of a stage; nothing where a notable part is not split.
pub(crate) fn communication(
    report: &Report,
    collectives: &[&CollectiveRow],
    warm: bool,
) -> Option<(u64, u64)> {
    let sum = |ns: fn(&CollectiveRow) -> Option<u64>| {
        collectives.iter().filter_map(|row| ns(row)).fold(0u64, u64::saturating_add)
    };
    let (waiting, transfer) = (sum(|row| row.waiting_ns), sum(|row| row.transfer_ns));
    let split = (u128::from(waiting) + u128::from(transfer)) * 100;
    let all = u128::from(sum(|row| Some(row.time_ns))) * NEARLY_ALL_PERCENT;
    if report.ranks.kernels_left_out > 0 || split == 0 || split < all {
        return None;
    }
    // Ranks wait long in a first instance, which need not be so in the others.
    let found = match warm {
        true => (sum(|row| row.warm_waiting_ns), sum(|row| row.warm_transfer_ns)),
        false => (waiting, transfer),
    };
    (found.0 > 0 || found.1 > 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stage2_model::ProcessCoverage;
    use stage2_read::roles::{Meant, RoleSettings};

    fn stage(stage: &str, instances: u64, kernels: u64) -> StageRow {
        StageRow {
            stage: stage.into(),
            role: match RoleSettings::default().of(stage, None) {
                Meant::Stage(role) => role,
                Meant::Apart(_) => Role::Other,
            },
            instances: Some(instances),
            kernels: Some(kernels),
            copies: Some(0),
            fills: Some(0),
            gpu_busy_ns: Some(kernels),
            ..StageRow::default()
        }
    }

    fn within(names: &[(&str, u64)]) -> Vec<PathRow> {
        let row = |name: &str, instances, parent| PathRow {
            path: name.into(),
            name: name.into(),
            parent,
            instances: Some(instances),
            ..PathRow::default()
        };
        let decode = row("decode", 4, None);
        let names = names.iter().map(|&(name, instances)| row(name, instances, Some(0)));
        std::iter::once(decode).chain(names).collect()
    }

    fn steps(stages: Vec<StageRow>, paths: Vec<PathRow>) -> Option<u64> {
        let report = Report { stages, paths, ..Report::default() };
        count_decode_steps(&report, &RoleSettings::default()).map(|found| found.steps)
    }

    #[test]
    fn steps_are_counted_where_the_ranges_show_them() {
        let run = |decodes| vec![stage("prefill", 4, 9), stage("decode", decodes, 9)];
        assert_eq!(steps(run(4), within(&[("step", 64)])), Some(16), "within each decode");
        let numbered = within(&[("step_0", 4), ("step_1", 4), ("step_2", 4)]);
        assert_eq!(steps(run(4), numbered), Some(3));
        assert_eq!(steps(run(32), Vec::new()), Some(8), "a decode is a step");
        assert_eq!(steps(run(4), Vec::new()), None, "one range around all steps");
        assert_eq!(steps(run(4), within(&[("layer", 64)])), None, "layers are no steps");
        assert_eq!(steps(run(4), within(&[("step", 63)])), None, "they do not divide evenly");
        assert_eq!(steps(run(4), within(&[("step", 8), ("token", 8)])), None, "which is it?");
        assert_eq!(steps(run(31), Vec::new()), None);
        // The last call, which the end of the run cut after 3 of 16 steps, says nothing of the others.
        let mut cut = run(4);
        cut[1].unclosed = Some(1);
        let mut paths = within(&[("step", 51)]);
        assert_eq!(steps(cut.clone(), paths.clone()), None, "which calls hold them is not known");
        paths[1].in_closed = Some(48);
        assert_eq!(steps(cut.clone(), paths.clone()), Some(16));
        // The end came in a prefill, and no decode follows it.
        (cut[0].instances, cut[0].unclosed, cut[1].unclosed) = (Some(5), Some(1), Some(0));
        paths[1].instances = Some(64);
        assert_eq!(steps(cut.clone(), paths.clone()), Some(16));
        cut[0].unclosed = Some(0);
        assert_eq!(steps(cut, paths), None, "a prefill that ended has its decode");
        let mut server = run(32);
        server.push(stage("request", 4, 0));
        assert_eq!(steps(server, Vec::new()), None, "a batch serves several prefills");
        let mut graph = run(4);
        graph.push(stage("capture", 1, 0));
        assert_eq!(steps(graph, within(&[("step", 64)])), Some(16), "a graph, captured once");
        let (stages, paths) = (run(4), within(&[("tick", 64), ("step", 4)]));
        let report = Report { stages, paths, ..Report::default() };
        let roles = RoleSettings { step: vec!["TICK".to_owned().into()], ..Default::default() };
        let found = count_decode_steps(&report, &roles).map(|found| found.steps);
        assert_eq!(found, Some(16), "as configured");
    }

    #[test]
    fn what_a_cut_call_still_opens_is_no_stage() {
        let mut paths = within(&[("step", 64)]);
        paths.push(PathRow { parent: None, instances: Some(5), ..paths[1].clone() });
        paths.push(PathRow { path: "encode".into(), name: "encode".into(), ..paths[0].clone() });
        let apart = |report: &mut Report| {
            report.stages = ["decode", "step", "encode"].map(|name| stage(name, 4, 9)).into();
            let settings = OperatorSettings::default();
            mark_stage_roles(report, &settings, &RoleSettings::default());
            report.stages.iter().map(|row| row.apart).collect::<Vec<_>>()
        };
        let mut report = Report { paths, ..Report::default() };
        report.coverage.total.unbalanced_range_ends = 1;
        assert_eq!(apart(&mut report), [None; 3], "the program opens it within others and alone");
        let began = BTreeMap::from([(window::BEGAN.to_owned(), "1".to_owned())]);
        report.coverage.processes = vec![ProcessCoverage { meta: began, ..Default::default() }];
        assert_eq!(apart(&mut report), [None, Some(Apart::CutCall), None]);
        let said = "GPU records outside of the stages: 9 in calls that began before the recording";
        assert!(report.coverage.verdict.text.contains(said), "{}", report.coverage.verdict.text);
        report.coverage.total.unbalanced_range_ends = 0;
        assert_eq!(apart(&mut report), [None; 3], "the recording began between calls");
    }
}
