//! Which feature works on which Envoy with which build of the filter.
//!
//! [`Features`] are what users ask for, each with end-to-end tests that prove it. The program of this crate runs these tests with
//! every [`Combination`] and writes down the [`Results`], from which the [`table`] in `docs/compatibility.md` is made. Only the
//! program runs anything; the rest reads and writes texts.

mod combination;
mod differences;
mod error;
mod features;
mod results;
pub mod table;

pub use combination::{Combination, Filter};
pub use differences::Differences;
pub use error::Error;
pub use features::{Feature, Features, Note};
pub use results::{Outcome, Results, Run};

/// The features and the tests that prove them, below the project's root.
pub const FEATURES: &str = "testenv/e2e/compatibility.json";
/// How portcullis.wasm differs from the module, below the project's root.
pub const DIFFERENCES: &str = "testenv/e2e/wasm-differences.json";
/// The file with the results of the last run, below the project's root.
pub const RESULTS: &str = "docs/reference/compatibility.json";
/// The page with the table, below the project's root.
pub const PAGE: &str = "docs/compatibility.md";
