//! Sources of objects: a directory and a Kubernetes API lead to the same, and the loss of either takes nothing away.

mod conformance;
mod fixture;
mod in_cluster;
mod leader;
mod outage;
mod ownership;
mod references;
mod rights;
mod scale;
mod side;
mod traffic;

pub(crate) use fixture::SourceFixture;
pub(crate) use side::{SOON, Side};
