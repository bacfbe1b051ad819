//! The filter's logic on a host of our own.

mod host;
mod limits;
mod marks;
mod requests;
mod trailers;
