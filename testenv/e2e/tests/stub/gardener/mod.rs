//! An Envoy like the ingress gateway of a Gardener seed, with the objects of `envoy/gardener`, in front of stubs of two shoots.

mod credential_routing;
mod fixture;
mod names;
mod spoofing;
mod upgrades;
