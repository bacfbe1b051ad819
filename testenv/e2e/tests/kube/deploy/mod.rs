//! The manifests of deploy/kubernetes and the chart of deploy/helm: what they must say, and that a real kube-apiserver takes every word of them.

mod apply;
mod chart;
mod envoys;
mod monitoring;
mod pod;
mod policies;
mod printed;
mod rendered;
mod running;
mod running_envoys;
mod shape;
