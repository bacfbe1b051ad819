//! The console in a real browser: `make test-console`. Every test here needs Chromium and is left out of `make test`; the login
//! is in `kube/console_login.rs`, and what needs no browser in `stub/console.rs`, `kube/console.rs` and the console's own unit tests.
#![cfg(test)]

mod accessibility;
mod fixture;
mod hostile;
mod live;
mod scale;
mod screenshots;
