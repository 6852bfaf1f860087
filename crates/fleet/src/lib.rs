//! Reports over the ledgers of many hosts: transfers between containers, and a corrected bill.
//!
//! Ledgers become Parquet ([`lines`], [`prepare`]). A [`census`] lists the hosts and times that
//! they cover, and refuses records that would count twice. The [`engine`] runs the queries in
//! [`stages`] in bounded memory. [`page`] shows their results, which stay next to it as Parquet.
#![forbid(unsafe_code)]

pub mod census;
pub mod engine;
pub mod error;
pub mod figures;
pub mod find;
pub mod lines;
pub mod model;
pub mod page;
pub mod pairs;
pub mod prepare;
pub mod report;
pub mod stages;
pub mod store;
pub mod synthetic;
