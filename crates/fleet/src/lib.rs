//! Reports over the ledgers of many hosts: who caused whose harm, and a corrected bill.
//!
//! Ledgers become Parquet ([`lines`], [`prepare`]), a [`census`] says which hosts and times they cover and
//! refuses what would count twice, the [`engine`] runs the queries in [`stages`] in bounded memory, and
//! [`page`] shows their results, which stay beside it as Parquet.
#![forbid(unsafe_code)]

pub mod census;
pub mod engine;
pub mod error;
pub mod figures;
pub mod find;
pub mod lines;
pub mod made_up;
pub mod model;
pub mod page;
pub mod pairs;
pub mod prepare;
pub mod report;
pub mod stages;
pub mod store;
