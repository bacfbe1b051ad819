//! The chart of deploy/helm: rendered and installed by Helm itself.

mod helm;
mod lifecycle;
mod rows;
mod same;
mod schema;
mod strings;
mod values;

pub(super) use helm::{Helm, Release};
