//! Recent past of each container, drawn as bars of text.

use crate::view::Row;
use cofferdam_types::CgroupId;
use std::collections::{HashMap, VecDeque};

/// Most intervals that are remembered: four minutes of seconds, as many as a wide terminal has
/// cells.
pub const DEPTH: usize = 240;

/// Quantity whose past can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// CPU use that the scheduler charged.
    Cpu,
    /// Network CPU caused.
    Caused,
    /// Network CPU charged.
    Charged,
    /// caused − charged.
    Owed,
    /// Packets per second.
    Packets,
    /// CPU time that others took.
    Lost,
}

impl Quantity {
    /// All quantities, in the order of the details.
    pub const ALL: [Quantity; 6] = [
        Quantity::Cpu,
        Quantity::Caused,
        Quantity::Charged,
        Quantity::Owed,
        Quantity::Packets,
        Quantity::Lost,
    ];

    /// Heading of the list's column.
    pub fn title(self) -> &'static str {
        match self {
            Quantity::Caused => "CAUSED HISTORY",
            _ => "OWED HISTORY",
        }
    }

    /// Other quantity of the list's column.
    pub fn other(self) -> Quantity {
        match self {
            Quantity::Owed => Quantity::Caused,
            _ => Quantity::Owed,
        }
    }

    /// Name in the details.
    pub fn label(self) -> &'static str {
        match self {
            Quantity::Cpu => "CPU",
            Quantity::Caused => "caused",
            Quantity::Charged => "charged",
            Quantity::Owed => "owed",
            Quantity::Packets => "packets/s",
            Quantity::Lost => "lost",
        }
    }
}

/// One interval of one container, in the order of [`Quantity::ALL`]; an unknown value is NaN.
type Point = [f32; Quantity::ALL.len()];

/// Past of all containers. Memory is bounded: a container without a row is forgotten.
#[derive(Clone, Debug, Default)]
pub struct Histories {
    points: HashMap<CgroupId, VecDeque<Point>>,
}

impl Histories {
    /// Appends the rows of one interval.
    pub fn push(&mut self, rows: &[Row]) {
        let mut next = HashMap::with_capacity(rows.len());
        for row in rows {
            let mut past = self.points.remove(&row.cgroup).unwrap_or_default();
            if past.len() == DEPTH {
                past.pop_front();
            }
            let values = [
                row.cpu_pct,
                row.caused_pct,
                row.charged_pct,
                row.owed_pct,
                row.packets_per_s,
                row.lost_pct.unwrap_or(f64::NAN),
            ];
            past.push_back(values.map(|value| value as f32));
            next.insert(row.cgroup, past);
        }
        self.points = next;
    }

    /// Last `width` values, oldest first; fewer while there are fewer.
    pub fn last(&self, cgroup: CgroupId, quantity: Quantity, width: usize) -> Vec<f64> {
        let Some(past) = self.points.get(&cgroup) else {
            return Vec::new();
        };
        let place = Quantity::ALL
            .iter()
            .position(|q| *q == quantity)
            .unwrap_or(0);
        past.iter()
            .skip(past.len().saturating_sub(width))
            .map(|point| f64::from(point[place]))
            .collect()
    }
}

/// Bar of eight heights for a `value` above zero, or of three shades for one below. `full` is the
/// value of the highest bar; a value near zero and an unknown one are a blank. A colour repeats the
/// sign.
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
    fn the_past_is_bounded_and_ended_containers_are_forgotten() {
        let all = rows(&record());
        let mut histories = Histories::default();
        for _ in 0..DEPTH + 10 {
            histories.push(&all);
        }
        let web = all.iter().find(|r| r.name == "web-3").unwrap().cgroup;
        assert_eq!(histories.last(web, Quantity::Owed, 1000).len(), DEPTH);
        assert_eq!(histories.last(web, Quantity::Caused, 2), [43.0, 43.0]);
        assert_eq!(histories.last(web, Quantity::Packets, 1), [700_000.0]);
        assert!(histories.last(web, Quantity::Lost, 1)[0].is_nan());
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
        assert_eq!(bar(f64::NAN, 10.0), ' ');
    }
}
