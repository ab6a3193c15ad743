//! Axes, grids and lines by plotters, in the colours of the page; marks of our own on top.
//!
//! plotters draws SVG while the report is written: a library that draws in the browser would put
//! megabytes of script into a file that people mail, and show nothing where scripts are off. It knows
//! no style sheets, so each colour is a placeholder here that becomes a variable of `page.css`.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::markdown::text;

/// Width and height of a picture, in its own units: text of 11 stays readable on a phone.
pub(super) const SIZE: (u32, u32) = (440, 320);
pub(super) const FRONT: RGBColor = RGBColor(1, 1, 1);
pub(super) const SOFT: RGBColor = RGBColor(1, 1, 2);
pub(super) const GRID: RGBColor = RGBColor(1, 1, 3);
pub(super) const LINE: RGBColor = RGBColor(1, 1, 4);
pub(super) const BAND: RGBColor = RGBColor(1, 1, 5);
pub(super) const WARM: RGBColor = RGBColor(1, 1, 6);
const COLOURS: [(&str, &str); 6] = [
    ("\"#010101\"", "\"var(--front)\""),
    ("\"#010102\"", "\"var(--soft)\""),
    ("\"#010103\"", "\"var(--line)\""),
    ("\"#010104\"", "\"var(--accent)\""),
    ("\"#010105\"", "\"var(--band)\""),
    ("\"#010106\"", "\"var(--warm)\""),
];

/// Why a picture could not be drawn.
pub(super) type Error = Box<dyn std::error::Error>;

/// The area of a picture.
pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The inner area of a picture, with its axes.
type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

/// What stands around a picture.
pub(super) struct Caption<'a> {
    /// Identifier of the picture, unique in the page.
    pub(super) id: String,
    pub(super) title: &'a str,
    /// What it shows, for those who do not see it.
    pub(super) description: String,
}

/// A picture: what `draw` draws, and the marks of our own that it returns.
pub(super) fn picture(
    caption: &Caption<'_>,
    draw: impl FnOnce(&Area<'_>) -> Result<String, Error>,
) -> String {
    let mut drawn = String::new();
    let marks = {
        let area = SVGBackend::with_string(&mut drawn, SIZE).into_drawing_area();
        draw(&area).and_then(|marks| Ok(area.present().map(|()| marks)?))
    };
    let Caption { id, title, description } = caption;
    let marks = match marks {
        Ok(marks) => marks,
        Err(why) => {
            let why = text(&why.to_string());
            return format!(
                "<p>The picture cannot be drawn: {why}. Its numbers stand below.</p>\n"
            );
        }
    };
    for (placeholder, variable) in COLOURS {
        drawn = drawn.replace(placeholder, variable);
    }
    // The outer tag of the library is replaced by one with a title and a description.
    let inner = drawn.split_once('>').map_or("", |(_, inner)| inner);
    let inner = inner.trim_end().trim_end_matches("</svg>");
    let (width, height) = SIZE;
    format!(
        "<svg id=\"{id}\" class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" \
         aria-labelledby=\"{id}-title {id}-text\">\n<title id=\"{id}-title\">{}</title>\n\
         <desc id=\"{id}-text\">{}</desc>\n{inner}{marks}</svg>\n",
        text(title),
        text(description),
    )
}

/// Draws axes and a grid.
pub(super) fn axes<'a, X, Y>(
    area: &Area<'a>,
    (x, x_name): (X, &str),
    (y, y_name): (Y, &str),
    x_label: &dyn Fn(&f64) -> String,
    y_label: &dyn Fn(&f64) -> String,
) -> Result<Chart<'a, X::CoordDescType, Y::CoordDescType>, Error>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin_top(10)
        .margin_right(12)
        .x_label_area_size(42)
        .y_label_area_size(58)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(x_name)
        .y_desc(y_name)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(x_label)
        .y_label_formatter(y_label)
        .axis_style(SOFT)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 11, &FRONT))
        .axis_desc_style(("sans-serif", 11, &FRONT))
        .draw()?;
    Ok(chart)
}

/// A number on an axis, as short as it can be.
pub(super) fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        v if v.abs() >= 1e6 || v.abs() < 1e-3 => format!("{v:.0e}"),
        v if v.abs() >= 100.0 => format!("{v:.0}"),
        v => {
            let digits = format!("{v:.3}");
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}
