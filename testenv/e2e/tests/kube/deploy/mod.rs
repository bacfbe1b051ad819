//! The manifests of deploy/kubernetes: what they must say, and that a real kube-apiserver takes every word of them.

mod apply;
mod policies;
mod printed;
mod rendered;
mod shape;
