//! Report of the demo: the sections of the penalty, then those of the reservation.

use super::story;
use crate::data::Judgement;
use crate::demo::data::DemoResult;
use crate::penalty::{goals as penalty_goals, report as penalty};
use crate::report::error::ReportError;
use crate::report::format;
use crate::reservation::{goals as reservation_goals, report as reservation};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::Markup;
use std::slice;

impl Outcome for Box<DemoResult> {
    fn title(&self) -> Option<String> {
        Some(format!("Demo: {}", format::cell(&self.cell.cell)))
    }

    fn is_measured(&self) -> bool {
        true
    }

    fn goals(&self) -> Vec<Judgement> {
        let mut goals = penalty_goals::goals(slice::from_ref(&self.cell));
        goals.extend(reservation_goals::goals(self.reservation.as_slice()));
        goals
    }

    fn finding(&self, run: &RunData) -> Vec<String> {
        let mut text = penalty::finding(run, slice::from_ref(&self.cell));
        text.extend(self.reservation.as_ref().and_then(reservation::story));
        text
    }

    fn lead(&self, run: &RunData) -> Result<Option<Markup>, ReportError> {
        penalty::lead(run, slice::from_ref(&self.cell))
    }

    fn case_name(&self, case: &str) -> Option<String> {
        (self.cell.cell.id == case).then(|| format::cell(&self.cell.cell))
    }

    fn sections(&self, run: &RunData) -> Result<Vec<Markup>, ReportError> {
        let cells = slice::from_ref(&self.cell);
        let mut sections = penalty::sections(run, cells, &Default::default())?;
        if let Some(cell) = &self.reservation {
            sections.push(reservation::one(cell)?);
        }
        Ok(sections)
    }

    fn tables(&self) -> Vec<Table> {
        story::tables(self)
    }
}
