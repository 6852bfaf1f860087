//! One kind of chart for everything: rows on a common horizontal axis.
//!
//! Each row has its label above its lanes, not beside them, so that the chart is readable on
//! a phone; it is drawn 420 units wide and scaled by the page. Colours are written as plain
//! attributes and replaced by the page's style sheet in dark mode.

use super::ReportError;
use super::format::{number, short};
use crate::data::Estimate;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::fmt::Write as _;

const WIDTH: u32 = 420;
const MARGIN: u32 = 14;
const AXIS_HEIGHT: u32 = 36;
const HEAD_HEIGHT: u32 = 18;
const LABEL_HEIGHT: u32 = 20;
const LANE_HEIGHT: u32 = 16;
const ROW_GAP: u32 = 8;
/// Characters of a row's label and note together.
const TEXT_LIMIT: usize = 60;
/// Values beyond this are drawn at the edge: nothing real is as large, and the axis must end.
const LIMIT: f64 = 1e12;

const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
pub(super) const MUTED: RGBColor = RGBColor(0x5f, 0x6b, 0x78);
pub(super) const GRID: RGBColor = RGBColor(0xdd, 0xe3, 0xe8);
pub(super) const REFERENCE: RGBColor = RGBColor(0x8a, 0x94, 0x9e);

/// Meaning of a colour. The style sheet knows the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Traffic, what was caused.
    Caused,
    /// Compute, what was paid.
    Paid,
    /// Alone, neutral.
    Neutral,
    /// Whatever stands beside these.
    Other,
}

impl Tone {
    pub(super) fn color(self) -> RGBColor {
        match self {
            Tone::Caused => RGBColor(0xc2, 0x41, 0x0c),
            Tone::Paid => RGBColor(0x1d, 0x6f, 0xa5),
            Tone::Neutral => RGBColor(0x4b, 0x7f, 0x52),
            Tone::Other => MUTED,
        }
    }
}

/// Something drawn on a lane.
#[derive(Clone, Debug)]
pub enum Mark {
    /// A point with a whisker.
    Interval {
        low: f64,
        mid: f64,
        high: f64,
        tone: Tone,
    },
    /// Raw values, side by side where they coincide.
    Dots { values: Vec<f64>, tone: Tone },
    /// A bar from the axis' beginning.
    Bar { value: f64, tone: Tone },
    /// An upright stroke: a prediction, a median.
    Stroke { at: f64 },
}

/// One row.
#[derive(Clone, Debug)]
pub struct Row {
    /// Above the lanes, left.
    pub label: String,
    /// Above the lanes, right.
    pub note: String,
    /// From the top.
    pub lanes: Vec<Vec<Mark>>,
}

impl Row {
    /// Every value of `estimate` as a dot, and below them its median with its interval.
    pub fn of_estimate(label: String, note: String, estimate: &Estimate, tones: [Tone; 2]) -> Row {
        let [dots, interval] = tones;
        Row {
            label,
            note,
            lanes: vec![
                vec![Mark::Dots {
                    values: estimate.values.clone(),
                    tone: dots,
                }],
                vec![Mark::Interval {
                    low: estimate.low,
                    mid: estimate.median,
                    high: estimate.high,
                    tone: interval,
                }],
            ],
        }
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, for those who cannot see it.
    pub alt: String,
    /// Title of the axis.
    pub axis: String,
    /// Where the axis begins.
    pub from: f64,
    /// Upright lines through all rows, with their names.
    pub references: Vec<(f64, &'static str)>,
    /// From the top.
    pub rows: Vec<Row>,
}

type Plane<'a> = ChartContext<
    'a,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

impl Chart {
    /// The chart as an `<svg>` element.
    pub fn svg(&self) -> Result<String, ReportError> {
        let mut text = String::new();
        self.draw(&mut text)
            .map_err(|e| ReportError::Chart(e.to_string()))?;
        Ok(with_alt(&text, &self.alt))
    }

    fn draw(&self, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let body = HEAD_HEIGHT + self.rows.iter().map(height).sum::<u32>();
        let total = body + AXIS_HEIGHT + MARGIN;
        let root = SVGBackend::with_string(text, (WIDTH, total)).into_drawing_area();
        let (from, to) = (self.from, self.end());
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
            .x_labels(6)
            .x_label_formatter(&|x| tick(*x))
            .x_desc(self.axis.as_str())
            .label_style(style(11.0, MUTED, HPos::Center))
            .axis_desc_style(style(11.5, MUTED, HPos::Center))
            .axis_style(GRID)
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (at, name) in &self.references {
            let x = clamp(*at, from, to);
            let top = f64::from(HEAD_HEIGHT) - 4.0;
            line(
                &mut plane,
                &[(x, top), (x, f64::from(body))],
                REFERENCE.stroke_width(1),
            )?;
            // At the edges the name would leave the picture.
            let place = (x - from) / (to - from);
            let side = match place {
                p if p < 0.15 => HPos::Left,
                p if p > 0.85 => HPos::Right,
                _ => HPos::Center,
            };
            write(&mut plane, name, (x, top - 7.0), style(10.5, MUTED, side))?;
        }
        let mut y = f64::from(HEAD_HEIGHT);
        for row in &self.rows {
            self.row(&mut plane, row, y, to)?;
            y += f64::from(height(row));
        }
        root.present()?;
        Ok(())
    }

    fn row(&self, plane: &mut Plane<'_>, row: &Row, top: f64, to: f64) -> Drawn {
        let note = short(&row.note, TEXT_LIMIT / 2);
        let label = short(&row.label, TEXT_LIMIT - note.chars().count());
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

    fn mark(&self, plane: &mut Plane<'_>, mark: &Mark, y: f64, to: f64) -> Drawn {
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
                dot(plane, (x(*mid), y), 4, tone.color().filled())?;
            }
            Mark::Dots { values, tone } => {
                for (i, value) in values.iter().enumerate() {
                    // Spread by number, not at random: the same data, the same picture.
                    let spread = [0.0, -3.0, 3.0, -1.5, 1.5][i % 5];
                    dot(
                        plane,
                        (x(*value), y + spread),
                        3,
                        tone.color().mix(0.65).filled(),
                    )?;
                }
            }
            Mark::Bar { value, tone } => {
                let corners = [(x(self.from.max(0.0)), y - 5.5), (x(*value), y + 5.5)];
                plane.draw_series(std::iter::once(Rectangle::new(
                    corners,
                    tone.color().filled(),
                )))?;
            }
            Mark::Stroke { at } => {
                line(
                    plane,
                    &[(x(*at), y - 7.0), (x(*at), y + 7.0)],
                    INK.stroke_width(2),
                )?;
            }
        }
        Ok(())
    }

    /// The end of the axis: a little beyond the largest value.
    fn end(&self) -> f64 {
        let marks = self.rows.iter().flat_map(|r| r.lanes.iter().flatten());
        let values = marks.flat_map(|mark| match mark {
            Mark::Interval { high, mid, .. } => vec![*high, *mid],
            Mark::Dots { values, .. } => values.clone(),
            Mark::Bar { value, .. } => vec![*value],
            Mark::Stroke { at } => vec![*at],
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

type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Names a picture for those who cannot see it.
pub(super) fn with_alt(svg: &str, alt: &str) -> String {
    let mut escaped = String::new();
    // The attribute of an element that plotters opens: escaped by the same rules as maud.
    let _ = maud::Escaper::new(&mut escaped).write_str(alt);
    svg.replacen(
        "<svg ",
        &format!("<svg role=\"img\" aria-label=\"{escaped}\" "),
        1,
    )
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

/// A tick's name: as short as the step allows.
pub(super) fn tick(x: f64) -> String {
    // Steps are 1, 2 or 5 times a power of ten: three digits tell them apart.
    let text = number((x * 1e9).round() / 1e9);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(super) fn style(size: f64, color: RGBColor, side: HPos) -> TextStyle<'static> {
    // plotters divides the size by 1.24 when it writes SVG.
    let font = ("sans-serif", size * 1.24).into_font();
    font.color(&color).pos(Pos::new(side, VPos::Center))
}

fn line(plane: &mut Plane<'_>, points: &[(f64, f64)], stroke: ShapeStyle) -> Drawn {
    plane.draw_series(std::iter::once(PathElement::new(points.to_vec(), stroke)))?;
    Ok(())
}

fn dot(plane: &mut Plane<'_>, at: (f64, f64), radius: i32, fill: ShapeStyle) -> Drawn {
    plane.draw_series(std::iter::once(Circle::new(at, radius, fill)))?;
    Ok(())
}

fn write(plane: &mut Plane<'_>, text: &str, at: (f64, f64), style: TextStyle<'static>) -> Drawn {
    plane.draw_series(std::iter::once(Text::new(text.to_owned(), at, style)))?;
    Ok(())
}
