//! The recent past of each container, drawn as bars of text.

use crate::view::Row;
use cofferdam_types::CgroupId;
use std::collections::{HashMap, VecDeque};

/// How many intervals are remembered: as many as the widest history column shows.
pub const DEPTH: usize = 60;

/// What the history column shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// caused − charged.
    Owed,
    /// Caused.
    Caused,
}

impl Quantity {
    /// Heading of the column.
    pub fn title(self) -> &'static str {
        match self {
            Quantity::Owed => "OWED HISTORY",
            Quantity::Caused => "CAUSED HISTORY",
        }
    }

    /// The other one.
    pub fn other(self) -> Quantity {
        match self {
            Quantity::Owed => Quantity::Caused,
            Quantity::Caused => Quantity::Owed,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    owed_pct: f64,
    caused_pct: f64,
}

/// The past of all containers. Memory is bounded: a container is forgotten with its last row.
#[derive(Debug, Default)]
pub struct Histories {
    points: HashMap<CgroupId, VecDeque<Point>>,
}

impl Histories {
    /// Takes in the rows of one interval.
    pub fn push(&mut self, rows: &[Row]) {
        let mut kept = HashMap::with_capacity(rows.len());
        for row in rows {
            let mut past = self.points.remove(&row.cgroup).unwrap_or_default();
            if past.len() == DEPTH {
                past.pop_front();
            }
            past.push_back(Point {
                owed_pct: row.owed_pct,
                caused_pct: row.caused_pct,
            });
            kept.insert(row.cgroup, past);
        }
        self.points = kept;
    }

    /// The last `width` values, oldest first; shorter while there are fewer.
    pub fn last(&self, cgroup: CgroupId, quantity: Quantity, width: usize) -> Vec<f64> {
        let Some(past) = self.points.get(&cgroup) else {
            return Vec::new();
        };
        past.iter()
            .skip(past.len().saturating_sub(width))
            .map(|point| match quantity {
                Quantity::Owed => point.owed_pct,
                Quantity::Caused => point.caused_pct,
            })
            .collect()
    }
}

/// A bar of eight heights for a `value` above zero, one of three shades for one below, where `full`
/// is the highest; a blank for next to nothing. Colour says the same again.
pub fn bar(value: f64, full: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const SHADES: [char; 3] = ['░', '▒', '▓'];
    let share = value.abs() / full;
    if share.is_nan() || share < 0.0125 {
        return ' ';
    }
    let of = |glyphs: &[char]| {
        let step = (share * glyphs.len() as f64).ceil() as usize;
        glyphs[step.clamp(1, glyphs.len()) - 1]
    };
    if value < 0.0 { of(&SHADES) } else { of(&BARS) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::record;
    use crate::view::rows;

    #[test]
    fn keeps_a_bounded_past_and_forgets_the_gone() {
        let all = rows(&record());
        let mut histories = Histories::default();
        for _ in 0..DEPTH + 10 {
            histories.push(&all);
        }
        let web = all.iter().find(|r| r.name == "web-3").unwrap().cgroup;
        assert_eq!(histories.last(web, Quantity::Owed, 1000).len(), DEPTH);
        assert_eq!(histories.last(web, Quantity::Caused, 2).len(), 2);
        histories.push(&[]);
        assert!(histories.last(web, Quantity::Owed, 5).is_empty());
    }

    #[test]
    fn bars_span_the_scale() {
        assert_eq!(bar(0.0, 10.0), ' ');
        assert_eq!(bar(0.2, 10.0), '▁');
        assert_eq!(bar(5.0, 10.0), '▄');
        assert_eq!(bar(-0.2, 10.0), '░');
        assert_eq!(bar(-5.0, 10.0), '▒');
        assert_eq!(bar(-10.0, 10.0), '▓');
        assert_eq!(bar(10.0, 10.0), '█');
        assert_eq!(bar(99.0, 10.0), '█');
        assert_eq!(bar(0.0, 0.0), ' ');
    }
}
