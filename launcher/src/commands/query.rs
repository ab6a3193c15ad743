//! A run and SQL -> rows.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use stage2_ask::query::{Bundle, Limits, QueryError, RowCount, USUAL_ROWS};
use stage2_contract::text::visible_path;
use stage2_model::Report;
use stage2_read::trace::libraries::RangeNames;
use stage2_report::Settings;

use super::ask::WIDTH;
use super::diff::{metrics_of, whole_report_of};
use super::ending::printed;
use super::json_schema::json_schema;
use crate::bundle::run_named;
use crate::cli::{QueryArgs, SchemaArgs};
use crate::failure::{EXIT_NO_RESULT, Failure};
use crate::plan;
use crate::terminal::{Terminal, width};

/// After the limit, before the program ends: SQLite looks at the time between its steps.
const GRACE: Duration = Duration::from_secs(1);

/// What is asked.
struct Asked {
    folder: PathBuf,
    report: Report,
    libraries: RangeNames,
    called: String,
}

impl Asked {
    fn of(run: &Path, terminal: &Terminal) -> Result<Self, Failure> {
        let path = metrics_of(run)?;
        let read = whole_report_of(&path)?;
        for field in read.left_out {
            terminal.result(&format!("left out of {}: {field}", visible_path(&path)));
        }
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        // A file in the folder where the command runs has no folder in its name.
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let libraries = Settings::of_run(&folder).libraries;
        Ok(Self { folder, report: read.report, libraries, called: visible_path(run) })
    }

    fn bundle(&self) -> Bundle<'_> {
        let Self { folder, report, libraries, called } = self;
        Bundle { report, folder, libraries, called }
    }
}

pub(crate) fn query(args: &QueryArgs, terminal: &Terminal) -> Result<u8, Failure> {
    if Path::new(&args.sql).exists() && !run_named(&args.run).exists() {
        let (sql, run) = (plan::quote(&args.run), plan::quote(&args.sql));
        let text = format!("the run comes before the SQL: stage2-launch query {run} {sql}");
        return Err(Failure::Usage(text));
    }
    let asked = Asked::of(&args.run, terminal)?;
    let rows = args.rows.unwrap_or(USUAL_ROWS);
    let rows = (rows > 0).then_some(rows);
    let limits = Limits { rows, time: Duration::from_secs(args.seconds) };
    let limit = ended_after(limits.time, *terminal);
    let answered = stage2_ask::query::query(&asked.bundle(), &args.sql, limits);
    drop(limit);
    let answered = answered.map_err(|error| match error {
        QueryError::Sql(text) => Failure::Usage(text),
        QueryError::TooMuch(text) => Failure::NoResult(text),
    })?;
    let shown = if args.json {
        answered.to_json()
    } else if args.csv {
        // The table has no place for them.
        answered.notes.iter().for_each(|note| terminal.result(note));
        answered.to_csv()
    } else {
        for_person().map_or_else(|| answered.to_markdown(), |width| answered.to_text(width))
    };
    printed(&shown)?;
    let is_full = matches!(answered.all, RowCount::NoRoomBeyond(_));
    // A sum over rows that are not all there must not pass for the whole one: -q hides no cut that nobody asked for.
    match answered.rest().filter(|_| args.csv || is_full) {
        Some(rest) if is_full => {
            return Err(Failure::NoResult(format!("the result is cut: {rest}")));
        }
        Some(rest) if args.rows.is_none() => terminal.caution(&rest),
        rest => rest.iter().for_each(|rest| terminal.result(rest)),
    }
    Ok(0)
}

/// The width of the terminal that a person looks at; nothing where a program reads Markdown.
fn for_person() -> Option<usize> {
    let stdout = std::io::stdout();
    // COLUMNS alone makes no terminal of a pipe.
    stdout.is_terminal().then(|| width(&stdout).unwrap_or(WIDTH))
}

/// Ends the program soon after `limit` unless what it returns is dropped before: one step of a query, as a search in a
/// long text, may take minutes, and nothing interrupts it. There is nothing to put in order: the tables are in memory.
fn ended_after(limit: Duration, terminal: Terminal) -> Option<Sender<()>> {
    let (running, ended) = channel::<()>();
    let wait = move || {
        if ended.recv_timeout(limit + GRACE) == Err(RecvTimeoutError::Timeout) {
            terminal.error(&QueryError::time(limit).to_string());
            std::process::exit(EXIT_NO_RESULT.into());
        }
    };
    // Without the thread, the limit holds between steps.
    Builder::new().name("limit".to_owned()).spawn(wait).ok().map(|_| running)
}

pub(crate) fn schema(args: &SchemaArgs, terminal: &Terminal) -> Result<u8, Failure> {
    if let Some(name) = &args.json_schema {
        return json_schema(name);
    }
    // The command line has one of the two.
    let run = args.run.as_deref().unwrap_or(Path::new("latest"));
    let asked = Asked::of(run, terminal)?;
    let schema = stage2_ask::schema::schema(&asked.bundle(), args.table.as_deref());
    let schema = schema.map_err(Failure::Usage)?;
    printed(&match (args.json, for_person()) {
        (true, _) => schema.to_json(),
        (false, Some(width)) => schema.to_text(width),
        (false, None) => schema.to_markdown(),
    })
}
