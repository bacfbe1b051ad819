use std::str::FromStr;

/// A remembered flag whose values of earlier runs no longer count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Forgotten {
    HostDir,
    ServerNames,
    KubeApiserverFlags,
    EtcdFlags,
    Tenants,
    Tenant(String),
}

impl FromStr for Forgotten {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.split_once('=')) {
            ("host-dir", _) => Ok(Self::HostDir),
            ("server-name", _) => Ok(Self::ServerNames),
            ("kube-apiserver-flag", _) => Ok(Self::KubeApiserverFlags),
            ("etcd-flag", _) => Ok(Self::EtcdFlags),
            ("tenant", _) => Ok(Self::Tenants),
            (_, Some(("tenant", name))) => Ok(Self::Tenant(name.to_owned())),
            _ => Err("it must be host-dir, server-name, kube-apiserver-flag, etcd-flag, tenant or tenant=NAME"),
        }
    }
}
