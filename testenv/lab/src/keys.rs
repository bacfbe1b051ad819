//! Certificates and keys as files, which manifests refer to.

use std::path::PathBuf;

use portcullis_harness::Result;
use portcullis_harness::certs::{Ca, CertSpec, Identity};
use portcullis_harness::rundir::RunDir;

use crate::{CLUSTER, LOCALHOST};

/// The directory of the keys, `--references-root` of the control plane.
const ROOT: &str = "keys";

/// The gateway's serving certificates: one for all names of the cluster, and one for unknown names.
pub(crate) struct Serving {
    /// The authority that clients trust.
    pub(crate) ca: Ca,
    cluster: Identity,
    default: Identity,
}

impl Serving {
    /// Certificates for the names and for loopback's addresses, so that clients that send no name can verify the cluster's.
    pub(crate) fn new() -> Result<Self> {
        let ca = Ca::new("gateway serving authority")?;
        Ok(Serving {
            cluster: ca.issue(&CertSpec::server(CLUSTER, [CLUSTER, LOCALHOST]))?,
            default: ca.issue(&CertSpec::server("gateway", ["default.gateway"]))?,
            ca,
        })
    }
}

/// Writes what the manifests refer to, and gives the directory.
pub(crate) fn write(
    run: &RunDir,
    serving: &Serving,
    upstream: &Identity,
    server_ca: &Ca,
    client_ca: &Ca,
) -> Result<PathBuf> {
    let root = run.make_dir(ROOT)?;
    let pair = |name: &str, identity: &Identity| {
        identity.write_pem(&root.join(format!("{name}.crt")), &root.join(format!("{name}.key")))
    };
    pair("default", &serving.default)?;
    pair("serving", &serving.cluster)?;
    pair("upstream", upstream)?;
    server_ca.write_pem(&root.join("upstream-ca.crt"))?;
    client_ca.write_pem(&root.join("client-ca.crt"))?;
    Ok(root)
}
