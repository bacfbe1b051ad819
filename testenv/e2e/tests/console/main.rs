//! The console in a real browser: `make test-console`. Every test here needs Chromium and is left out of `make test`; what needs
//! no browser is in `stub/console.rs`, `kube/console.rs` and the console's own unit tests.
#![cfg(test)]

mod accessibility;
mod fixture;
mod hostile;
mod live;
mod logins;
mod scale;
mod screenshots;
