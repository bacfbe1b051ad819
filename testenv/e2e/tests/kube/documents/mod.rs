//! Steps of the documents, by the commands that are written there: with real kubectl, kube-apiserver and Envoy, up to the request of
//! a user.

mod add_a_cluster;
mod back_up;
mod gateway_api;
mod roles;
mod walkthrough;
