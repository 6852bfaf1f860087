//! Marks on a lane: their colours and shapes.

use super::{DrawResult, Plane, Spread};
use plotters::coord::Shift;
use plotters::prelude::*;

pub(crate) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x33);
pub(crate) const MUTED: RGBColor = RGBColor(0x5f, 0x6b, 0x78);
pub(crate) const GRID: RGBColor = RGBColor(0xdd, 0xe3, 0xe8);
pub(crate) const REFERENCE: RGBColor = RGBColor(0x8a, 0x94, 0x9e);

/// Meaning of a colour and a shape. The style sheet has the same colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Traffic, or CPU time that was caused.
    Caused,
    /// Compute, or CPU time that was paid.
    Paid,
    /// Colour of the baseline.
    Neutral,
    /// Any further meaning.
    Other,
}

impl Tone {
    pub(crate) fn color(self) -> RGBColor {
        match self {
            Tone::Caused => RGBColor(0xc2, 0x41, 0x0c),
            Tone::Paid => RGBColor(0x1d, 0x6f, 0xa5),
            Tone::Neutral => RGBColor(0x4b, 0x7f, 0x52),
            Tone::Other => MUTED,
        }
    }
}

/// Mark on a lane.
#[derive(Clone, Debug)]
pub enum Mark {
    /// Point with a whisker.
    Interval {
        /// Lower end.
        low: f64,
        /// Position of the point.
        mid: f64,
        /// Upper end.
        high: f64,
        /// Colour and shape.
        tone: Tone,
    },
    /// Raw values, spread where they coincide.
    Dots {
        /// Values.
        values: Vec<f64>,
        /// Colour and shape.
        tone: Tone,
    },
    /// Bar from the begin of the axis.
    Bar {
        /// End of the bar.
        value: f64,
        /// Colour.
        tone: Tone,
    },
    /// Upright stroke: the median of the dots next to it.
    Median {
        /// Position.
        at: f64,
    },
    /// Hollow shape: a median without an interval, which proves nothing.
    Unproved {
        /// Position.
        at: f64,
        /// Colour and shape.
        tone: Tone,
    },
    /// Wedge above the lane: a figure that was calculated, not measured.
    Expected {
        /// Position.
        at: f64,
    },
}

/// Meaning of a mark in the legend. Each has a mark of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sign {
    Dot,
    Interval,
    Median,
    Unproved,
    Expected,
}

impl Sign {
    /// Words of the legend.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Sign::Dot => "one measurement",
            Sign::Interval => "median, 95% interval",
            Sign::Median => "median",
            Sign::Unproved => "median, no interval",
            Sign::Expected => "expected",
        }
    }
}

impl Mark {
    /// Median with its whisker, or a hollow shape if there is no interval.
    pub fn of_estimate(estimate: &impl Spread, tone: Tone) -> Mark {
        match estimate.interval() {
            Some((low, high)) => Mark::Interval {
                low,
                mid: estimate.median(),
                high,
                tone,
            },
            None => Mark::Unproved {
                at: estimate.median(),
                tone,
            },
        }
    }

    /// Meaning of the mark. `None` for a bar, which ends at its value.
    pub(crate) fn sign(&self) -> Option<Sign> {
        match self {
            Mark::Interval { .. } => Some(Sign::Interval),
            Mark::Dots { .. } => Some(Sign::Dot),
            Mark::Bar { .. } => None,
            Mark::Median { .. } => Some(Sign::Median),
            Mark::Unproved { .. } => Some(Sign::Unproved),
            Mark::Expected { .. } => Some(Sign::Expected),
        }
    }
}

/// Draws the shape of `tone` at a place of the plane.
pub(crate) fn shape(
    plane: &mut Plane<'_>,
    tone: Tone,
    at: (f64, f64),
    radius: i32,
    fill: ShapeStyle,
) -> DrawResult {
    let shape = EmptyElement::at(at) + outline(tone, (0, 0), radius, fill);
    plane.draw_series(std::iter::once(shape))?;
    Ok(())
}

/// Draws the outline of `tone` at a place of the plane, empty inside.
pub(crate) fn hollow(plane: &mut Plane<'_>, tone: Tone, at: (f64, f64)) -> DrawResult {
    let mut corners = points(tone, (0, 0), 4);
    corners.extend(corners.first().copied());
    let line = PathElement::new(corners, tone.color().stroke_width(2));
    plane.draw_series(std::iter::once(EmptyElement::at(at) + line))?;
    Ok(())
}

/// Draws a wedge that points down at a place of the plane.
pub(crate) fn wedge(plane: &mut Plane<'_>, at: (f64, f64)) -> DrawResult {
    let shape = EmptyElement::at(at) + wedge_at((0, 0));
    plane.draw_series(std::iter::once(shape))?;
    Ok(())
}

fn wedge_at((x, y): (i32, i32)) -> Polygon<(i32, i32)> {
    let corners = vec![(x - 4, y - 8), (x + 4, y - 8), (x, y - 1)];
    Polygon::new(corners, INK.filled())
}

/// Draws the mark of `sign` in a legend, in ink: its colour has another meaning.
pub(crate) fn sign(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    sign: Sign,
    (x, y): (i32, i32),
) -> DrawResult {
    let line = |from, to| PathElement::new(vec![from, to], INK.stroke_width(2));
    match sign {
        Sign::Dot => area.draw(&Circle::new((x, y), 3, INK.mix(0.65).filled()))?,
        Sign::Interval => {
            area.draw(&line((x - 7, y), (x + 7, y)))?;
            area.draw(&line((x - 7, y - 4), (x - 7, y + 4)))?;
            area.draw(&line((x + 7, y - 4), (x + 7, y + 4)))?;
            area.draw(&Circle::new((x, y), 3, INK.filled()))?;
        }
        Sign::Median => area.draw(&line((x, y - 7), (x, y + 7)))?,
        Sign::Unproved => area.draw(&Circle::new((x, y), 4, INK.stroke_width(2)))?,
        Sign::Expected => area.draw(&wedge_at((x, y + 5)))?,
    }
    Ok(())
}

/// Draws the shape of `tone` in a legend.
pub(crate) fn swatch(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    tone: Tone,
    at: (i32, i32),
) -> DrawResult {
    area.draw(&outline(tone, at, 4, tone.color().filled()))?;
    Ok(())
}

/// Circle, square, triangle or diamond: distinct without colour.
fn outline(tone: Tone, at: (i32, i32), radius: i32, fill: ShapeStyle) -> Polygon<(i32, i32)> {
    Polygon::new(points(tone, at, radius), fill)
}

fn points(tone: Tone, (x, y): (i32, i32), radius: i32) -> Vec<(i32, i32)> {
    let r = radius;
    match tone {
        Tone::Caused => (0..16)
            .map(|part| {
                let (sin, cos) = (f64::from(part) * std::f64::consts::TAU / 16.0).sin_cos();
                let along = |by: f64| (by * f64::from(r)).round() as i32;
                (x + along(cos), y + along(sin))
            })
            .collect(),
        Tone::Paid => vec![
            (x - r, y - r),
            (x + r, y - r),
            (x + r, y + r),
            (x - r, y + r),
        ],
        Tone::Neutral => vec![(x, y - r), (x + r, y + r), (x - r, y + r)],
        Tone::Other => vec![
            (x, y - r - 1),
            (x + r + 1, y),
            (x, y + r + 1),
            (x - r - 1, y),
        ],
    }
}
