//! Chart of rows on a common horizontal axis: the one kind of chart for everything.
//!
//! Each row has its label above its lanes, so that the chart is readable on a phone. It is drawn
//! twice ([`NARROW`], [`WIDE`]); the page shows the one that fits. Colours are written as plain
//! attributes, and the page's style sheet replaces them in dark mode. Each meaning of a colour has
//! a shape as well, and an entry in the legend.

pub(crate) mod mark;

pub use mark::{Mark, Tone};

use crate::DrawError;
use crate::format::{number, short};
pub(crate) use mark::{GRID, MUTED, REFERENCE};
use mark::{INK, Sign};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Width of a picture on a phone, or of one of two in a row.
pub(crate) const NARROW: u32 = 420;
/// Width of a picture that has a row for itself.
pub(crate) const WIDE: u32 = 860;
const MARGIN: u32 = 14;
const AXIS_HEIGHT: u32 = 36;
const HEAD_LINE: u32 = 14;
const LEGEND_HEIGHT: u32 = 18;
const LABEL_HEIGHT: u32 = 20;
const LANE_HEIGHT: u32 = 16;
const ROW_GAP: u32 = 8;
/// Characters of a row's label and note together, in a narrow picture.
const TEXT_LIMIT: usize = 60;
/// Largest width of a letter in a reference's name.
const LETTER: f64 = 6.5;
/// Largest value on the axis. Larger ones are drawn at the edge: no real value is as large.
const LIMIT: f64 = 1e12;

/// Values with their median.
pub trait Spread {
    /// All values.
    fn values(&self) -> &[f64];
    /// Median.
    fn median(&self) -> f64;
    /// Confidence interval of the median. `None` if the values allow none.
    fn interval(&self) -> Option<(f64, f64)>;
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Text above the lanes, left.
    pub label: String,
    /// Text above the lanes, right.
    pub note: String,
    /// Lanes, from the top.
    pub lanes: Vec<Vec<Mark>>,
}

impl Row {
    /// Row with every value of `estimate` as a dot, and below them its median with its interval.
    pub fn of_estimate(
        label: String,
        note: String,
        estimate: &impl Spread,
        tones: [Tone; 2],
    ) -> Row {
        let [dots, interval] = tones;
        Row {
            label,
            note,
            lanes: vec![
                vec![Mark::Dots {
                    values: estimate.values().to_vec(),
                    tone: dots,
                }],
                vec![Mark::of_estimate(estimate, interval)],
            ],
        }
    }
}

/// Chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text alternative of the picture.
    pub alt: String,
    /// Title of the axis.
    pub axis: String,
    /// Begin of the axis.
    pub from: f64,
    /// Meanings of the tones for the legend; empty if each row explains itself. Marks get their
    /// entries automatically.
    pub legend: &'static [(Tone, &'static str)],
    /// Upright lines through the lanes of all rows, with their names.
    pub references: Vec<(f64, &'static str)>,
    /// Rows, from the top.
    pub rows: Vec<Row>,
}

type Plane<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Placed name of a reference: its line in the head, and its anchor.
struct PlacedName {
    at: f64,
    name: &'static str,
    line: u32,
    side: HPos,
}

/// Symbol of an entry in the legend.
#[derive(Clone, Copy)]
enum LegendSymbol {
    Tone(Tone),
    Sign(Sign),
}

/// Placed entry of the legend.
struct LegendEntry {
    key: LegendSymbol,
    words: &'static str,
    x: i32,
    line: u32,
}

impl Chart {
    /// Draws the chart as two `<svg>` elements, of which the page shows one.
    pub fn svg(&self) -> Result<String, DrawError> {
        both_widths(&self.alt, |width, text| self.draw(text, width))
    }

    fn draw(&self, text: &mut String, width: u32) -> DrawResult {
        let (from, to) = (self.from, self.end());
        let names = self.names(to, width);
        let lines = names.iter().map(|n| n.line + 1).max().unwrap_or(0);
        let entries = self.entries(width);
        let legend = LEGEND_HEIGHT * entries.iter().map(|e| e.line + 1).max().unwrap_or(0);
        let head = legend + HEAD_LINE * lines + 4;
        let body = head + self.rows.iter().map(height).sum::<u32>();
        let total = body + AXIS_HEIGHT + MARGIN;
        let root = SVGBackend::with_string(text, (width, total)).into_drawing_area();
        let mut plane = ChartBuilder::on(&root)
            .margin_left(MARGIN)
            .margin_right(MARGIN)
            .margin_bottom(MARGIN)
            .x_label_area_size(AXIS_HEIGHT)
            .build_cartesian_2d(from..to, f64::from(body)..0.0)?;
        plane
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_labels(if width < WIDE { 6 } else { 12 })
            .x_label_formatter(&|x| tick(*x))
            .x_desc(self.axis.as_str())
            .label_style(style(11.0, MUTED, HPos::Center))
            .axis_desc_style(style(11.5, MUTED, HPos::Center))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for entry in &entries {
            let y = (LEGEND_HEIGHT * entry.line + LEGEND_HEIGHT / 2).cast_signed();
            match entry.key {
                LegendSymbol::Tone(tone) => mark::swatch(&root, tone, (entry.x, y))?,
                LegendSymbol::Sign(sign) => mark::sign(&root, sign, (entry.x, y))?,
            }
            let text = style(11.0, MUTED, HPos::Left);
            root.draw(&Text::new(entry.words, (entry.x + 11, y), text))?;
        }
        for named in &names {
            let x = clamp(named.at, from, to);
            let y = f64::from(legend + HEAD_LINE * named.line) + f64::from(HEAD_LINE) / 2.0;
            write(
                &mut plane,
                named.name,
                (x, y),
                style(10.5, MUTED, named.side),
            )?;
        }
        let mut y = f64::from(head);
        for row in &self.rows {
            // Through the lanes only: a line through a label makes both hard to read.
            let lanes = (y + f64::from(LABEL_HEIGHT), y + f64::from(height(row)));
            for (at, _) in &self.references {
                let x = clamp(*at, from, to);
                line(
                    &mut plane,
                    &[(x, lanes.0), (x, lanes.1)],
                    REFERENCE.stroke_width(1),
                )?;
            }
            self.row(&mut plane, row, y, to, width)?;
            y += f64::from(height(row));
        }
        root.present()?;
        Ok(())
    }

    /// Entries of the legend, for each named tone and each mark in use, on as many lines as needed.
    fn entries(&self, width: u32) -> Vec<LegendEntry> {
        let marks = self.rows.iter().flat_map(|r| r.lanes.iter().flatten());
        let signs: BTreeSet<Sign> = marks.filter_map(Mark::sign).collect();
        let tones = self
            .legend
            .iter()
            .map(|(tone, words)| (LegendSymbol::Tone(*tone), *words));
        let signs = signs
            .into_iter()
            .map(|sign| (LegendSymbol::Sign(sign), sign.words()));
        let begin = MARGIN.cast_signed() + 7;
        let (mut x, mut line) = (begin, 0);
        let entry = |(key, words): (LegendSymbol, &'static str)| {
            let size = 32 + (words.chars().count() as f64 * LETTER) as i32;
            if x > begin && x + size > width.cast_signed() {
                (x, line) = (begin, line + 1);
            }
            let entry = LegendEntry {
                key,
                words,
                x,
                line,
            };
            x += size;
            entry
        };
        tones.chain(signs).map(entry).collect()
    }

    /// Places the references' names so that none covers another.
    fn names(&self, to: f64, width: u32) -> Vec<PlacedName> {
        let span = f64::from(width - 2 * MARGIN);
        let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
        let named = self.references.iter().map(|(at, name)| {
            let place = (clamp(*at, self.from, to) - self.from) / (to - self.from);
            let (x, size) = (place * span, name.chars().count() as f64 * LETTER);
            // At the edges, the name would leave the picture.
            let (side, begin) = match x {
                x if x < size / 2.0 => (HPos::Left, x),
                x if x > span - size / 2.0 => (HPos::Right, x - size),
                x => (HPos::Center, x - size / 2.0),
            };
            let own = (begin - 4.0, begin + size + 4.0);
            let is_free = |line: &Vec<(f64, f64)>| {
                line.iter()
                    .all(|other| own.1 <= other.0 || other.1 <= own.0)
            };
            let line = taken.iter().position(is_free).unwrap_or(taken.len());
            if line == taken.len() {
                taken.push(Vec::new());
            }
            taken[line].push(own);
            PlacedName {
                at: *at,
                name,
                line: line as u32,
                side,
            }
        });
        named.collect()
    }

    fn row(&self, plane: &mut Plane<'_>, row: &Row, top: f64, to: f64, width: u32) -> DrawResult {
        let limit = TEXT_LIMIT * width as usize / NARROW as usize;
        let note = short(&row.note, limit / 2);
        let label = short(&row.label, limit - note.chars().count());
        let middle = top + f64::from(LABEL_HEIGHT) / 2.0 + 1.0;
        write(
            plane,
            &label,
            (self.from, middle),
            style(11.5, INK, HPos::Left),
        )?;
        write(plane, &note, (to, middle), style(11.5, INK, HPos::Right))?;
        for (i, lane) in (0_u32..).zip(&row.lanes) {
            let y = top + f64::from(LABEL_HEIGHT + i * LANE_HEIGHT) + f64::from(LANE_HEIGHT) / 2.0;
            for mark in lane {
                self.mark(plane, mark, y, to)?;
            }
        }
        Ok(())
    }

    fn mark(&self, plane: &mut Plane<'_>, mark: &Mark, y: f64, to: f64) -> DrawResult {
        let x = |value: f64| clamp(value, self.from, to);
        match mark {
            Mark::Interval {
                low,
                mid,
                high,
                tone,
            } => {
                let stroke = tone.color().stroke_width(2);
                line(plane, &[(x(*low), y), (x(*high), y)], stroke)?;
                for end in [*low, *high] {
                    line(plane, &[(x(end), y - 4.0), (x(end), y + 4.0)], stroke)?;
                }
                mark::shape(plane, *tone, (x(*mid), y), 4, tone.color().filled())?;
            }
            Mark::Dots { values, tone } => {
                for (i, value) in values.iter().enumerate() {
                    // Spread by number, not at random: equal data give equal pictures.
                    let spread = [0.0, -3.0, 3.0, -1.5, 1.5][i % 5];
                    let fill = tone.color().mix(0.65).filled();
                    mark::shape(plane, *tone, (x(*value), y + spread), 3, fill)?;
                }
            }
            Mark::Bar { value, tone } => {
                let corners = [(x(self.from.max(0.0)), y - 5.5), (x(*value), y + 5.5)];
                plane.draw_series(std::iter::once(Rectangle::new(
                    corners,
                    tone.color().filled(),
                )))?;
            }
            Mark::Median { at } => {
                line(
                    plane,
                    &[(x(*at), y - 7.0), (x(*at), y + 7.0)],
                    INK.stroke_width(2),
                )?;
            }
            Mark::Unproved { at, tone } => mark::hollow(plane, *tone, (x(*at), y))?,
            Mark::Expected { at } => mark::wedge(plane, (x(*at), y))?,
        }
        Ok(())
    }

    /// End of the axis: a little beyond the largest value.
    fn end(&self) -> f64 {
        let marks = self.rows.iter().flat_map(|r| r.lanes.iter().flatten());
        let values = marks.flat_map(|mark| match mark {
            Mark::Interval { high, mid, .. } => vec![*high, *mid],
            Mark::Dots { values, .. } => values.clone(),
            Mark::Bar { value, .. } => vec![*value],
            Mark::Median { at } | Mark::Unproved { at, .. } | Mark::Expected { at } => vec![*at],
        });
        let references = self.references.iter().map(|(at, _)| *at);
        let largest = values
            .chain(references)
            .filter(|v| v.is_finite())
            .fold(self.from, |max, v| max.max(v.min(LIMIT)));
        let span = largest - self.from;
        if span > 0.0 {
            largest + span * 0.06
        } else {
            self.from + 1.0
        }
    }
}

pub(crate) type DrawResult = Result<(), Box<dyn std::error::Error>>;

/// Draws a picture in both widths, each with `alt` as its text alternative.
pub(crate) fn both_widths(
    alt: &str,
    draw: impl Fn(u32, &mut String) -> DrawResult,
) -> Result<String, DrawError> {
    let mut escaped = String::new();
    // Attribute of an element that plotters opens: escaped by the same rules as maud.
    let _ = maud::Escaper::new(&mut escaped).write_str(alt);
    let mut both = String::new();
    for (width, class) in [(NARROW, "narrow"), (WIDE, "wide")] {
        let mut text = String::new();
        draw(width, &mut text).map_err(|e| DrawError(e.to_string()))?;
        let named = format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{escaped}\" ");
        both += &text.replacen("<svg ", &named, 1);
    }
    Ok(both)
}

fn height(row: &Row) -> u32 {
    LABEL_HEIGHT + LANE_HEIGHT * row.lanes.len() as u32 + ROW_GAP
}

fn clamp(value: f64, from: f64, to: f64) -> f64 {
    if value.is_nan() {
        from
    } else {
        value.clamp(from, to)
    }
}

/// Name of a tick, as short as the step allows.
pub(crate) fn tick(x: f64) -> String {
    // Steps are 1, 2 or 5 times a power of ten, so three digits distinguish them.
    let text = number((x * 1e9).round() / 1e9);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(crate) fn style(size: f64, color: RGBColor, side: HPos) -> TextStyle<'static> {
    // plotters divides the size by 1.24 when it writes SVG.
    let font = ("sans-serif", size * 1.24).into_font();
    font.color(&color).pos(Pos::new(side, VPos::Center))
}

fn line(plane: &mut Plane<'_>, points: &[(f64, f64)], stroke: ShapeStyle) -> DrawResult {
    plane.draw_series(std::iter::once(PathElement::new(points.to_vec(), stroke)))?;
    Ok(())
}

fn write(
    plane: &mut Plane<'_>,
    text: &str,
    at: (f64, f64),
    style: TextStyle<'static>,
) -> DrawResult {
    plane.draw_series(std::iter::once(Text::new(text.to_owned(), at, style)))?;
    Ok(())
}
