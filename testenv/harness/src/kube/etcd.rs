//! etcd, as the store of the kube-apiservers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::client::plain;
use crate::error::{Error, Result};
use crate::ports;
use crate::process::{Process, Spec};

/// Its files below `dir`.
pub(super) fn data(dir: &Path) -> PathBuf {
    dir.join("etcd-data")
}

/// Starts etcd on what is in [`data`]; gives its process and address. Readiness is not waited for: kube-apiserver does that.
pub(super) fn start(binary: &Path, dir: &Path, traces: Option<SocketAddr>) -> Result<(Process, SocketAddr)> {
    let address = ports::free_address()?;
    let client = format!("http://{address}");
    let peer = format!("http://127.0.0.1:{}", ports::free()?);
    let spec = Spec::new("etcd", binary, dir)
        .flag("name", "default")
        .flag("data-dir", data(dir))
        .flag("listen-client-urls", &client)
        .flag("advertise-client-urls", &client)
        .flag("listen-peer-urls", &peer)
        .flag("initial-advertise-peer-urls", &peer)
        .flag("initial-cluster", format!("default={peer}"))
        .flag("log-level", "warn")
        // Test data need not survive a power cut.
        .flag("unsafe-no-fsync", "true");
    let spec = match traces {
        // etcd never samples a trace of its own.
        Some(receiver) => spec
            .flag("enable-distributed-tracing", "true")
            .flag("distributed-tracing-address", receiver.to_string())
            .flag("distributed-tracing-sampling-rate", "0"),
        None => spec,
    };
    Ok((Process::start(spec)?, address))
}

/// Deletes all keys that begin with `prefix`, by the HTTP form of etcd's API.
pub(super) fn delete(address: SocketAddr, prefix: &str) -> Result<()> {
    // The first key behind all of them: '0' follows '/'.
    let end = format!("{}0", prefix.trim_end_matches('/'));
    let range = serde_json::json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)}).to_string();
    let answer = plain::post(address, "/v3/kv/deleterange", range.as_bytes())?;
    if answer.status == 200 {
        return Ok(());
    }
    Err(Error::Http { step: "deleting keys of etcd", reason: answer.text() })
}
