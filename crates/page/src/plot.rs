//! Lines over two axes, each linear or logarithmic, in the style of [`crate::chart`].

use crate::DrawError;
use crate::chart::mark;
use crate::chart::{DrawResult, GRID, MUTED, NARROW, REFERENCE, Tone, both_widths, style, tick};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

const PLANE_HEIGHT: i32 = 220;
const LEGEND_ROW: i32 = 18;
const LEFT: i32 = 52;
const MARGIN: i32 = 14;
const TOP: i32 = 24;
const BELOW: i32 = 44;

/// One axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    title: &'static str,
    is_log: bool,
    /// Whether only whole numbers are named.
    is_count: bool,
}

impl Axis {
    /// Linear axis from 0.
    pub fn linear(title: &'static str) -> Axis {
        Axis {
            title,
            is_log: false,
            is_count: false,
        }
    }

    /// Linear axis from 0, in whole numbers.
    pub fn count(title: &'static str) -> Axis {
        Axis {
            is_count: true,
            ..Axis::linear(title)
        }
    }

    /// Logarithmic axis. Values that are not above 0 are skipped.
    pub fn log(title: &'static str) -> Axis {
        Axis {
            is_log: true,
            ..Axis::linear(title)
        }
    }

    fn place(self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }

    fn shows(self, value: f64) -> bool {
        value.is_finite() && (value > 0.0 || (!self.is_log && value == 0.0))
    }

    /// Ends of the axis, as places, and the values to name.
    fn scale(self, values: impl Iterator<Item = f64>) -> (f64, f64, Vec<f64>) {
        let places: Vec<f64> = values
            .filter(|v| self.shows(*v))
            .map(|v| self.place(v))
            .collect();
        let least = places.iter().copied().fold(f64::INFINITY, f64::min);
        let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if places.is_empty() {
            return (0.0, 1.0, Vec::new());
        }
        if !self.is_log {
            let end = if most > 0.0 { most * 1.05 } else { 1.0 };
            let least = if self.is_count { 1.0 } else { 0.0 };
            let step = nice(end / 5.0).max(least);
            let named = (0..=(end / step) as u32).map(|n| f64::from(n) * step);
            return (0.0, end, named.collect());
        }
        let room = ((most - least) * 0.05).max(0.05);
        let (from, to) = (least - room, most + room);
        // Within few powers of ten, the twos and fives are named as well.
        let digits: &[f64] = if to - from < 2.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let powers = (from.floor() as i32)..=(to.ceil() as i32);
        let named = powers.flat_map(|p| digits.iter().map(move |d| d * 10_f64.powi(p)));
        let inside = |v: &f64| (from..=to).contains(&v.log10());
        (from, to, named.filter(inside).collect())
    }
}

/// Smallest of 1, 2 or 5 times a power of ten that is at least `least`.
fn nice(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|digit| digit * power)
        .find(|step| *step >= least * 0.999);
    found.unwrap_or(least)
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Colour.
    pub tone: Tone,
    /// Points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// First point that is drawn hollow, because it has another meaning.
    pub hollow_from: Option<usize>,
    /// Whether it is one of many lines drawn over each other: thin, without a mark at each point.
    pub is_trace: bool,
}

/// Diagram of lines and points over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Text alternative of the picture.
    pub alt: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Horizontal lines at these heights, with their names.
    pub references: Vec<(f64, &'static str)>,
    /// Meaning of hollow points, for the legend.
    pub hollow: &'static str,
    /// Lines, drawn over each other.
    pub lines: Vec<Line>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Plot {
    /// Draws the plot as two `<svg>` elements, of which the page shows one.
    pub fn svg(&self) -> Result<String, DrawError> {
        both_widths(&self.alt, |width, text| self.draw(text, width))
    }

    fn draw(&self, text: &mut String, width: u32) -> DrawResult {
        let right = width.cast_signed() - MARGIN;
        let is_hollow = self.lines.iter().any(|l| l.hollow_from.is_some());
        let rows = self.named().count().div_ceil(2) as i32 + i32::from(is_hollow);
        let legend = LEGEND_ROW * rows;
        let height = (legend + TOP + PLANE_HEIGHT + BELOW).cast_unsigned();
        let root = SVGBackend::with_string(text, (width, height)).into_drawing_area();
        self.legend(&root)?;
        if is_hollow {
            let y = legend - LEGEND_ROW / 2;
            root.draw(&Circle::new((17, y), 3, MUTED.stroke_width(2)))?;
            write(&root, self.hollow, (32, y), HPos::Left)?;
        }
        let top = legend + TOP;
        let bottom = top + PLANE_HEIGHT;
        let points = || self.lines.iter().flat_map(|l| &l.points);
        let (x_from, x_to, x_named) = self.x.scale(points().map(|p| p.0));
        let heights = points()
            .map(|p| p.1)
            .chain(self.references.iter().map(|r| r.0));
        let (y_from, y_to, y_named) = self.y.scale(heights);
        let across = |value: f64| {
            let share = (self.x.place(value) - x_from) / (x_to - x_from);
            LEFT + (share * f64::from(right - LEFT)).round() as i32
        };
        let up = |value: f64| {
            let share = (self.y.place(value) - y_from) / (y_to - y_from);
            bottom - (share * f64::from(PLANE_HEIGHT)).round() as i32
        };
        for value in &x_named {
            let x = across(*value);
            join(&root, vec![(x, top), (x, bottom)], GRID.stroke_width(1))?;
            write(&root, &tick(*value), (x, bottom + 12), HPos::Center)?;
        }
        for value in &y_named {
            let y = up(*value);
            join(&root, vec![(LEFT, y), (right, y)], GRID.stroke_width(1))?;
            write(&root, &tick(*value), (LEFT - 6, y), HPos::Right)?;
        }
        for (value, name) in &self.references {
            let y = up(*value);
            write(&root, name, (right, y - 8), HPos::Right)?;
            join(
                &root,
                vec![(LEFT, y), (right, y)],
                REFERENCE.stroke_width(1),
            )?;
        }
        write(&root, self.y.title, (4, top - 9), HPos::Left)?;
        let middle = (LEFT + right) / 2;
        write(&root, self.x.title, (middle, bottom + 30), HPos::Center)?;
        for line in &self.lines {
            let full = line.hollow_from.unwrap_or(line.points.len());
            let visible = line.points.iter().enumerate();
            let visible = visible.filter(|(_, p)| self.x.shows(p.0) && self.y.shows(p.1));
            let places: Vec<(bool, (i32, i32))> = visible
                .map(|(n, p)| (n < full, (across(p.0), up(p.1))))
                .collect();
            let color = line.tone.color();
            for (is_full, place) in places.iter().filter(|_| !line.is_trace) {
                match is_full {
                    true => mark::swatch(&root, line.tone, *place)?,
                    false => root.draw(&Circle::new(*place, 4, color.stroke_width(2)))?,
                }
            }
            for pair in places.windows(2) {
                let [(_, a), (is_full, b)] = pair else {
                    continue;
                };
                match is_full {
                    true if line.is_trace => {
                        join(&root, vec![*a, *b], color.mix(0.7).stroke_width(1))?
                    }
                    true => join(&root, vec![*a, *b], color.stroke_width(2))?,
                    false => dashes(&root, *a, *b, color.stroke_width(1))?,
                }
            }
        }
        root.present()?;
        Ok(())
    }

    /// Lines with an entry in the legend: the first of each name.
    fn named(&self) -> impl Iterator<Item = &Line> {
        let all = self.lines.iter().enumerate();
        let is_first = |n: usize, line: &Line| self.lines[..n].iter().all(|l| l.name != line.name);
        all.filter(move |(n, line)| is_first(*n, line))
            .map(|(_, line)| line)
    }

    fn legend(&self, root: &Area<'_>) -> DrawResult {
        for (n, line) in (0..).zip(self.named()) {
            let (x, y) = (
                8 + n % 2 * (NARROW.cast_signed() / 2),
                LEGEND_ROW / 2 + n / 2 * LEGEND_ROW,
            );
            let stroke = line.tone.color().stroke_width(2);
            join(root, vec![(x, y), (x + 18, y)], stroke)?;
            if !line.is_trace {
                mark::swatch(root, line.tone, (x + 9, y))?;
            }
            write(root, &line.name, (x + 24, y), HPos::Left)?;
        }
        Ok(())
    }
}

/// Draws a dashed line, which ends before the hollow point at `b`.
fn dashes(root: &Area<'_>, a: (i32, i32), b: (i32, i32), stroke: ShapeStyle) -> DrawResult {
    let (dx, dy) = (f64::from(b.0 - a.0), f64::from(b.1 - a.1));
    let length = dx.hypot(dy) - 5.0;
    let at = |way: f64| {
        let share = way / (length + 5.0);
        let along = |from: i32, by: f64| from + (by * share).round() as i32;
        (along(a.0, dx), along(a.1, dy))
    };
    let mut way = 0.0;
    while way < length {
        join(root, vec![at(way), at((way + 5.0).min(length))], stroke)?;
        way += 9.0;
    }
    Ok(())
}

fn join(root: &Area<'_>, points: Vec<(i32, i32)>, stroke: ShapeStyle) -> DrawResult {
    root.draw(&PathElement::new(points, stroke))?;
    Ok(())
}

fn write(root: &Area<'_>, text: &str, at: (i32, i32), side: HPos) -> DrawResult {
    root.draw(&Text::new(text.to_owned(), at, style(11.0, MUTED, side)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_name_round_values_within_their_ends() {
        let (from, to, named) = Axis::linear("x").scale([3.0, 230.0].into_iter());
        assert_eq!((from, named), (0.0, vec![0.0, 50.0, 100.0, 150.0, 200.0]));
        assert!(to > 230.0);
        let (_, _, named) = Axis::count("x").scale([1.0, 2.0].into_iter());
        assert_eq!(named, [0.0, 1.0, 2.0]);
        let (_, _, named) = Axis::log("x").scale([64.0, 262_144.0, 0.0].into_iter());
        assert_eq!(named, [100.0, 1000.0, 10_000.0, 100_000.0]);
        let (_, _, named) = Axis::log("x").scale([20.0, 600.0].into_iter());
        assert_eq!(named, [20.0, 50.0, 100.0, 200.0, 500.0]);
    }

    #[test]
    fn a_plot_draws_every_line_and_survives_odd_values() {
        let plot = |points: Vec<(f64, f64)>| Plot {
            alt: "a <plot>".to_owned(),
            x: Axis::log("x"),
            y: Axis::linear("y"),
            references: vec![(5.0, "goal")],
            hollow: "hollow",
            lines: vec![Line {
                name: "one".to_owned(),
                tone: Tone::Paid,
                hollow_from: (points.len() == 2).then_some(1),
                is_trace: false,
                points,
            }],
        };
        let text = plot(vec![(1.0, 2.0), (10.0, 4.0), (0.0, 1.0), (f64::NAN, 1.0)])
            .svg()
            .expect("drawn");
        // Two points, and the mark of the legend.
        assert_eq!(text.matches("<polygon").count(), 2 * 3);
        assert!(text.contains("a &lt;plot&gt;"));
        assert!(!text.contains("hollow"));
        let text = plot(vec![(1.0, 2.0), (10.0, 4.0)]).svg().expect("drawn");
        // The second point is hollow, and so is the mark of the legend.
        assert_eq!(text.matches("<polygon").count(), 2 * 2);
        assert_eq!(text.matches("<circle").count(), 2 * 2);
        assert!(text.contains("hollow"));
        assert!(plot(Vec::new()).svg().is_ok());
        assert!(plot(vec![(1.0, 0.0)]).svg().is_ok());
    }
}
