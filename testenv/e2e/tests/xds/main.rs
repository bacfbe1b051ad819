//! The xDS server among strangers and hostile peers: real TCP, TLS and HTTP/2, in this process.
#![cfg(test)]

mod bounds;
mod envoy;
mod exchanges;
mod fields;
mod flood;
mod hostile;
mod instance_reports;
mod refusing;
mod reports;
mod site;
