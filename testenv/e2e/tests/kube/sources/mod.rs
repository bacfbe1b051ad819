//! Sources of objects: a directory and a Kubernetes API lead to the same, and the loss of either takes nothing away.

mod conformance;
mod in_cluster;
mod leader;
mod outage;
mod ownership;
mod references;
mod rights;
mod scale;
mod side;
mod traffic;
mod world;

pub(crate) use side::{SOON, Side};
pub(crate) use world::World;
