//! The filter's logic on a host of our own.

mod host;
mod requests;
mod trailers;
