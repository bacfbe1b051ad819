//! SDS resources by which Envoy finds its certificate for xDS, and reads it anew when its files are replaced.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use serde_json::{Value, json};

/// Names of both resources, and of their files below a directory.
const CERTIFICATE: &str = "portcullis-xds-certificate";
const CA: &str = "portcullis-xds-ca";

/// The resources of an Envoy that follows control planes over the network. They name the files of keys and certificates
/// and hold none of them.
#[derive(Debug)]
pub(crate) struct Resources {
    certificate: Value,
    ca: Value,
}

/// Paths of the SDS resources that Envoy reads.
#[derive(Debug)]
pub(crate) struct Paths {
    certificate: String,
    ca: String,
}

/// Resources in the memory of this process, for a child that inherits the descriptors.
#[derive(Debug)]
pub(crate) struct InMemory {
    /// Descriptors under which the child finds them.
    pub(crate) paths: Paths,
    _files: [File; 2],
}

impl Resources {
    /// Of a PEM chain, its key, and the CAs of control planes.
    pub(super) fn new(certificate: &Path, key: &Path, ca: &Path) -> Self {
        let file = |path: &Path| json!({"filename": path.to_string_lossy()});
        let mut pair = json!({"certificate_chain": file(certificate), "private_key": file(key)});
        // A Secret's volume is replaced by one link in the directory of both. Of files in two directories Envoy watches each.
        if directory(certificate) == directory(key) {
            watch(&mut pair, certificate);
        }
        let mut authorities = json!({"trusted_ca": file(ca)});
        watch(&mut authorities, ca);
        Self {
            certificate: resource(CERTIFICATE, "tls_certificate", pair),
            ca: resource(CA, "validation_context", authorities),
        }
    }

    /// Writes them into a directory, each in one step.
    pub(crate) fn write(&self, directory: &Path) -> io::Result<Paths> {
        fs::create_dir_all(directory)?;
        let write = |name: &str, resource: &Value| {
            let (coming, path) = (directory.join(format!(".{name}.new")), directory.join(format!("{name}.json")));
            fs::write(&coming, resource.to_string())?;
            fs::rename(&coming, &path)?;
            io::Result::Ok(path.to_string_lossy().into_owned())
        };
        Ok(Paths { certificate: write(CERTIFICATE, &self.certificate)?, ca: write(CA, &self.ca)? })
    }

    /// Keeps them in memory, where nothing can change them: a gateway's container needs no directory that can be written.
    pub(crate) fn in_memory(&self) -> io::Result<InMemory> {
        let (certificate, ca) = (sealed(CERTIFICATE, &self.certificate)?, sealed(CA, &self.ca)?);
        // The one place below /proc and /dev from which Envoy reads.
        let path = |file: &File| format!("/dev/fd/{}", file.as_raw_fd());
        let paths = Paths { certificate: path(&certificate), ca: path(&ca) };
        Ok(InMemory { paths, _files: [certificate, ca] })
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn watch(source: &mut Value, path: &Path) {
    if let Some(fields) = source.as_object_mut() {
        fields.insert("watched_directory".to_owned(), json!({"path": directory(path).to_string_lossy()}));
    }
}

fn resource(name: &str, kind: &str, value: Value) -> Value {
    json!({"resources": [{
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": name,
        kind: value,
    }]})
}

fn sealed(name: &str, resource: &Value) -> io::Result<File> {
    // Without CLOEXEC: it is for the child.
    let mut file = File::from(memfd_create(name, MemfdFlags::ALLOW_SEALING)?);
    file.write_all(resource.to_string().as_bytes())?;
    fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE)?;
    Ok(file)
}

impl Paths {
    /// The fields of a `CommonTlsContext` that refer Envoy to both; `validation` holds the expected names of the control plane.
    pub(super) fn context(&self, validation: Value) -> Value {
        let reference = |name: &str, path: &str| {
            let source = json!({"path_config_source": {"path": path}, "resource_api_version": "V3"});
            json!({"name": name, "sds_config": source})
        };
        json!({
            "tls_certificate_sds_secret_configs": [reference(CERTIFICATE, &self.certificate)],
            "combined_validation_context": {
                "default_validation_context": validation,
                "validation_context_sds_secret_config": reference(CA, &self.ca),
            },
        })
    }
}
