//! etcd, as the store of the kube-apiservers.

use std::path::Path;

use crate::process::{Process, Spec};
use crate::{Result, ports};

/// Starts etcd; gives its process and URL. Readiness is not waited for: kube-apiserver does that.
pub(super) fn start(binary: &Path, dir: &Path) -> Result<(Process, String)> {
    let client = format!("http://127.0.0.1:{}", ports::free()?);
    let peer = format!("http://127.0.0.1:{}", ports::free()?);
    let spec = Spec::new("etcd", binary, dir)
        .flag("name", "default")
        .flag("data-dir", dir.join("etcd-data"))
        .flag("listen-client-urls", &client)
        .flag("advertise-client-urls", &client)
        .flag("listen-peer-urls", &peer)
        .flag("initial-advertise-peer-urls", &peer)
        .flag("initial-cluster", format!("default={peer}"))
        .flag("log-level", "warn")
        // Test data need not survive a power cut.
        .flag("unsafe-no-fsync", "true");
    Ok((Process::start(spec)?, client))
}
