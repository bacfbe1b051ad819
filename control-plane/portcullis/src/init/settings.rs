use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::InitError;
use super::arguments::StoreArguments;
use super::files::Layout;
use super::forget::Forgotten;
use super::member::{Member, is_host, is_label};
use super::tenant::Tenant;

/// The definition of a store: the flags of the last run, remembered in `store.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    pub(super) members: Vec<Member>,
    pub(super) server_names: Vec<String>,
    pub(super) host_dir: Option<PathBuf>,
    pub(super) namespace: String,
    pub(super) kube_apiserver_flags: Vec<String>,
    pub(super) etcd_flags: Vec<String>,
    pub(super) tenants: Vec<Tenant>,
}

const FILE: &str = "store.json";

impl Settings {
    /// The remembered ones without those that this run forgets, and with its flags in their place.
    pub(super) fn of(layout: &Layout, arguments: &StoreArguments, forgotten: &[Forgotten]) -> Result<Self, InitError> {
        let mut settings: Self = match layout.read(FILE)? {
            Some(text) => serde_json::from_slice(&text)
                .map_err(|source| InitError::Settings { path: layout.path(FILE), source })?,
            None => Self::new(arguments)?,
        };
        for one in forgotten {
            settings.forget(one)?;
        }
        settings.take(arguments);
        settings.check()?;
        Ok(settings)
    }

    fn new(arguments: &StoreArguments) -> Result<Self, InitError> {
        let program = |given: &Option<PathBuf>, name| match given {
            Some(path) => Ok(path.clone()),
            None => in_path(name).ok_or(InitError::Program(name)),
        };
        Ok(Self {
            etcd: program(&arguments.etcd, "etcd")?,
            kube_apiserver: program(&arguments.kube_apiserver, "kube-apiserver")?,
            members: vec![Member::local()],
            server_names: Vec::new(),
            host_dir: None,
            namespace: "portcullis".to_owned(),
            kube_apiserver_flags: Vec::new(),
            etcd_flags: Vec::new(),
            tenants: Vec::new(),
        })
    }

    /// A tenant that is not there is an error: its name is misspelt.
    fn forget(&mut self, forgotten: &Forgotten) -> Result<(), InitError> {
        match forgotten {
            Forgotten::HostDir => self.host_dir = None,
            Forgotten::ServerNames => self.server_names.clear(),
            Forgotten::KubeApiserverFlags => self.kube_apiserver_flags.clear(),
            Forgotten::EtcdFlags => self.etcd_flags.clear(),
            Forgotten::Tenants => self.tenants.clear(),
            Forgotten::Tenant(name) => {
                let before = self.tenants.len();
                self.tenants.retain(|tenant| tenant.name != *name);
                if self.tenants.len() == before {
                    return Err(InitError::NoTenant(name.clone()));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, arguments: &StoreArguments) {
        take_one(&mut self.etcd, arguments.etcd.as_ref());
        take_one(&mut self.kube_apiserver, arguments.kube_apiserver.as_ref());
        take_one(&mut self.namespace, arguments.namespace.as_ref());
        take_all(&mut self.members, &arguments.members);
        take_all(&mut self.server_names, &arguments.server_names);
        take_all(&mut self.kube_apiserver_flags, &arguments.kube_apiserver_flags);
        take_all(&mut self.etcd_flags, &arguments.etcd_flags);
        take_all(&mut self.tenants, &arguments.tenants);
        if arguments.host_dir.is_some() {
            self.host_dir.clone_from(&arguments.host_dir);
        }
    }

    fn check(&self) -> Result<(), InitError> {
        let names: std::collections::BTreeSet<&str> = self.members.iter().map(|one| one.name.as_str()).collect();
        if names.len() != self.members.len() {
            return Err(InitError::SameMember);
        }
        if !is_label(&self.namespace) {
            return Err(InitError::Namespace(self.namespace.clone()));
        }
        match self.server_names.iter().find(|name| !is_host(name)) {
            Some(name) => Err(InitError::ServerName(name.clone())),
            None => Ok(()),
        }
    }

    /// Remembers them.
    pub(super) fn save(&self, layout: &mut Layout) -> Result<(), InitError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(InitError::Json)?;
        text.push(b'\n');
        layout.write(FILE, &text, 0o600)
    }

    /// The member whose kube-apiserver is asked first.
    pub(super) fn first(&self) -> Member {
        self.members.first().cloned().unwrap_or_else(Member::local)
    }
}

fn take_one<T: Clone>(kept: &mut T, given: Option<&T>) {
    if let Some(given) = given {
        kept.clone_from(given);
    }
}

fn take_all<T: Clone>(kept: &mut Vec<T>, given: &[T]) {
    if !given.is_empty() {
        *kept = given.to_vec();
    }
}

/// A program in PATH.
fn in_path(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.is_file())
}
