//! Rows of a table -> its files, one for each hour in which rows ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};
use rustc_hash::FxHashMap;
use stage2_export::ExportError;

/// Rows of a row group: what is kept in memory for each file that is open.
const ROWS: usize = 1 << 17;
/// Hours of a table that are open at a time. Events come nearly in the order of their ends.
const HOURS_OPEN: usize = 2;
/// Files of a table of one process. Times that jump about would make one for each row; what is beyond has
/// no hour.
const FILES: usize = 1_024;

/// Hive's name for a partition without a value.
pub(crate) const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// Where the files of a table are, and what each of them says about itself.
#[derive(Clone)]
pub(crate) struct Place {
    /// The folder of the dataset while it is written.
    pub(crate) root: PathBuf,
    /// The partitions between the folder of the table and that of the hour.
    pub(crate) partitions: String,
    /// The name of the files, without their number and ending.
    pub(crate) stem: String,
    pub(crate) metadata: Vec<KeyValue>,
}

/// A table of one process, or of a run. It has a file from its first row on.
pub(crate) struct Table {
    folder: PathBuf,
    place: Place,
    schema: TypePtr,
    /// Its files are in folders of hours.
    has_hours: bool,
    /// The one that a row is being added to is the last.
    open: Vec<Part>,
    /// Files by hour: a second one of an hour has a number.
    parts: FxHashMap<Option<i64>, u32>,
    closed: Vec<PathBuf>,
    pub(crate) rows: u64,
    /// Rows that lost their hour, because the table had too many files.
    pub(crate) without_hour: u64,
}

/// A file that is being written.
struct Part {
    hour: Option<i64>,
    path: PathBuf,
    writer: Option<SerializedFileWriter<File>>,
    columns: Vec<Column>,
    rows: usize,
}

/// Values of one column; absent ones have no entry in the values.
enum Column {
    Int(Vec<i64>, Option<Vec<i16>>),
    Double(Vec<f64>, Vec<i16>),
    /// Equal texts share their bytes.
    Text {
        values: Vec<ByteArray>,
        levels: Option<Vec<i16>>,
        known: FxHashMap<String, ByteArray>,
    },
}

fn columns_of(schema: &Type) -> Vec<Column> {
    let column = |field: &TypePtr| {
        let levels = field.is_optional().then(Vec::new);
        match field.get_physical_type() {
            Physical::BYTE_ARRAY => {
                Column::Text { values: Vec::new(), levels, known: FxHashMap::default() }
            }
            Physical::DOUBLE => Column::Double(Vec::new(), Vec::new()),
            _ => Column::Int(Vec::new(), levels),
        }
    };
    schema.get_fields().iter().map(column).collect()
}

/// The row that is being added: one value for each column, in their order.
pub(crate) struct Row<'t> {
    columns: std::slice::IterMut<'t, Column>,
}

impl Row<'_> {
    pub(crate) fn int(&mut self, value: i64) -> &mut Self {
        self.maybe(Some(value))
    }

    pub(crate) fn maybe(&mut self, value: Option<i64>) -> &mut Self {
        if let Some(Column::Int(values, levels)) = self.columns.next() {
            values.extend(value);
            if let Some(levels) = levels {
                levels.push(i16::from(value.is_some()));
            }
        }
        self
    }

    pub(crate) fn maybe_double(&mut self, value: Option<f64>) -> &mut Self {
        if let Some(Column::Double(values, levels)) = self.columns.next() {
            values.extend(value);
            levels.push(i16::from(value.is_some()));
        }
        self
    }

    pub(crate) fn double(&mut self, value: f64) -> &mut Self {
        self.maybe_double(Some(value))
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.maybe_text(Some(value))
    }

    pub(crate) fn maybe_text(&mut self, value: Option<&str>) -> &mut Self {
        if let Some(Column::Text { values, levels, known }) = self.columns.next() {
            values.extend(value.map(|value| match known.get(value) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = ByteArray::from(value.as_bytes().to_vec());
                    known.insert(value.to_owned(), bytes.clone());
                    bytes
                }
            }));
            if let Some(levels) = levels {
                levels.push(i16::from(value.is_some()));
            }
        }
        self
    }
}

fn failed(path: &Path) -> impl Fn(ParquetError) -> ExportError + use<> {
    let write = ExportError::write(path);
    move |error| write(std::io::Error::other(error))
}

/// The hour of a time on the wall clock as a number that people can read, in UTC: 2026112711.
pub(crate) fn hour_of(at_ns: i64) -> i64 {
    let hours = at_ns.div_euclid(3_600_000_000_000);
    let (days, hour) = (hours.div_euclid(24), hours.rem_euclid(24));
    // Days since 1 March of the year 0, in eras of 400 years that are equally long.
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + i64::from(month <= 2);
    ((year * 100 + month) * 100 + day) * 100 + hour
}

impl Table {
    pub(crate) fn new(name: &str, schema: &str, place: &Place) -> Result<Self, ExportError> {
        let folder = place.root.join(name).join(&place.partitions);
        let schema = Arc::new(parse_message_type(schema).map_err(failed(&folder))?);
        Ok(Self {
            folder,
            place: place.clone(),
            schema,
            has_hours: true,
            open: Vec::new(),
            parts: FxHashMap::default(),
            closed: Vec::new(),
            rows: 0,
            without_hour: 0,
        })
    }

    /// A table whose rows have no place in time, so that its files are in no folder of an hour.
    pub(crate) fn timeless(name: &str, schema: &str, place: &Place) -> Result<Self, ExportError> {
        Ok(Self { has_hours: false, ..Self::new(name, schema, place)? })
    }

    /// Begins a row of what ended at this time.
    pub(crate) fn row(&mut self, ended_ns: Option<i64>) -> Result<Row<'_>, ExportError> {
        let mut hour = ended_ns.filter(|_| self.has_hours).map(hour_of);
        if !self.open.iter().any(|part| part.hour == hour) && self.closed.len() >= FILES {
            self.without_hour += 1;
            hour = None;
        }
        self.choose(hour)?;
        let columns = self.open.last_mut().map(|part| part.columns.iter_mut()).unwrap_or_default();
        Ok(Row { columns })
    }

    /// Makes the file of an hour the last one that is open.
    fn choose(&mut self, hour: Option<i64>) -> Result<(), ExportError> {
        if self.open.last().is_some_and(|part| part.hour == hour) {
            return Ok(());
        }
        if let Some(at) = self.open.iter().position(|part| part.hour == hour) {
            let part = self.open.remove(at);
            self.open.push(part);
            return Ok(());
        }
        if self.open.len() >= HOURS_OPEN {
            // The one that was not written to for longest.
            let part = self.open.remove(0);
            self.close(part)?;
        }
        let number = self.parts.entry(hour).or_default();
        let stem = &self.place.stem;
        let name = match *number {
            0 => format!("{stem}.parquet"),
            number => format!("{stem}-{number}.parquet"),
        };
        *number += 1;
        let folder = match (self.has_hours, hour) {
            (false, _) => self.folder.clone(),
            (true, Some(hour)) => self.folder.join(format!("hour={hour}")),
            (true, None) => self.folder.join(format!("hour={NO_VALUE}")),
        };
        let (columns, path) = (columns_of(&self.schema), folder.join(name));
        self.open.push(Part { hour, path, writer: None, columns, rows: 0 });
        Ok(())
    }

    pub(crate) fn end_row(&mut self) -> Result<(), ExportError> {
        self.rows += 1;
        let Some(part) = self.open.last_mut() else { return Ok(()) };
        part.rows += 1;
        if part.rows < ROWS {
            return Ok(());
        }
        part.flush(&self.schema, &self.place.metadata).map_err(failed(&part.path))
    }

    fn close(&mut self, mut part: Part) -> Result<(), ExportError> {
        part.flush(&self.schema, &self.place.metadata).map_err(failed(&part.path))?;
        let Some(writer) = part.writer else { return Ok(()) };
        let file = writer.into_inner().map_err(failed(&part.path))?;
        stage2_read::files::closes(&file).map_err(ExportError::write(&part.path))?;
        self.closed.push(part.path);
        Ok(())
    }

    /// The paths of its files.
    pub(crate) fn finish(mut self) -> Result<Vec<PathBuf>, ExportError> {
        for part in std::mem::take(&mut self.open) {
            self.close(part)?;
        }
        Ok(self.closed)
    }
}

impl Part {
    /// Writes what is in memory as a row group.
    fn flush(&mut self, schema: &TypePtr, metadata: &[KeyValue]) -> Result<(), ParquetError> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        if self.writer.is_none() {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder)?;
            }
            let properties = WriterProperties::builder()
                .set_compression(Compression::GZIP(GzipLevel::try_new(1)?))
                .set_created_by(concat!("stage2 ", env!("CARGO_PKG_VERSION")).to_owned())
                .set_key_value_metadata(Some(metadata.to_vec()))
                .build();
            let file = File::create(&self.path)?;
            let writer = SerializedFileWriter::new(file, schema.clone(), Arc::new(properties))?;
            self.writer = Some(writer);
        }
        let columns = std::mem::replace(&mut self.columns, columns_of(schema));
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut group = writer.next_row_group()?;
        for column in columns {
            let Some(mut out) = group.next_column()? else { break };
            match column {
                Column::Int(values, levels) => {
                    out.typed::<Int64Type>().write_batch(&values, levels.as_deref(), None)?;
                }
                Column::Double(values, levels) => {
                    out.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
                Column::Text { values, levels, .. } => {
                    out.typed::<ByteArrayType>().write_batch(&values, levels.as_deref(), None)?;
                }
            }
            out.close()?;
        }
        group.close().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_those_of_the_calendar() {
        for (second, hour) in [
            (0, 1970010100),
            (951_782_400, 2000022900),
            (951_868_800 + 3_599, 2000030100),
            (1_795_777_199, 2026112710),
            (1_795_777_200, 2026112711),
            (-1, 1969123123),
        ] {
            assert_eq!(hour_of(second * 1_000_000_000), hour, "{second}");
        }
        assert!(hour_of(i64::MIN) < hour_of(i64::MAX));
    }

    /// Hazard (Records that make no sense): The clocks of a process jump.
    /// Promise: Files and memory stay bounded, every row is there, and rows that lost their hour are counted.
    #[test]
    fn rows_of_any_order_of_hours_make_a_bounded_number_of_files() {
        let folder = tempfile::tempdir().expect("folder");
        let place = Place {
            root: folder.path().to_owned(),
            partitions: "job=j".to_owned(),
            stem: "p".to_owned(),
            metadata: Vec::new(),
        };
        let mut table = Table::new("t", "message t { required int64 n; }", &place).expect("table");
        let hour_ns = 3_600_000_000_000;
        for n in 0..4_000_i64 {
            table.row(Some(n * 7_919 % 50 * hour_ns)).expect("row").int(n);
            table.end_row().expect("row");
            assert!(table.open.len() <= HOURS_OPEN);
        }
        let (rows, without_hour) = (table.rows, table.without_hour);
        assert!(rows == 4_000 && without_hour > 0, "{rows} {without_hour}");
        let files = table.finish().expect("files");
        assert!(files.len() <= FILES + HOURS_OPEN + 1, "{}", files.len());
        let rows_of = |path: &PathBuf| {
            use parquet::file::reader::FileReader as _;
            let file = File::open(path).expect("file");
            let reader = parquet::file::reader::SerializedFileReader::new(file).expect("parquet");
            reader.metadata().file_metadata().num_rows()
        };
        assert_eq!(files.iter().map(rows_of).sum::<i64>(), 4_000);
        assert_eq!(files.iter().collect::<std::collections::BTreeSet<_>>().len(), files.len());
    }
}
