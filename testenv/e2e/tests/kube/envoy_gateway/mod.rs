//! The objects of `envoy/envoy-gateway`, made into a gateway's configuration by a real Envoy Gateway, in an Envoy in front of a real
//! kube-apiserver.

mod failures;
mod fixture;
mod serving;
mod tenants;
