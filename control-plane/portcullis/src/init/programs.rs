use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::member::Member;
use super::settings::Settings;

/// The programs of a member.
pub(super) const NAMES: [&str; 2] = ["kube-apiserver", "etcd"];
/// The number of lines that a start script keeps of what its program said last.
pub(super) const KEPT_LINES: usize = 20;

/// The file below a member's directory with the last lines of a program that has ended since its last start.
pub(super) fn ended_file(program: &str) -> String {
    format!("run/{program}.ended")
}

/// A program with its flags, from which its start script and its unit are written.
pub(super) struct Program {
    pub(super) name: &'static str,
    path: PathBuf,
    flags: Vec<(&'static str, Value)>,
    more_flags: Vec<String>,
    unit: Unit,
}

enum Value {
    Text(String),
    /// A path below the member's directory, wherever that is.
    Path(&'static str),
}

struct Unit {
    description: &'static str,
    after: &'static str,
    writes: &'static str,
}

impl Program {
    fn text(mut self, flag: &'static str, value: impl Into<String>) -> Self {
        self.flags.push((flag, Value::Text(value.into())));
        self
    }

    fn path(mut self, flag: &'static str, path: &'static str) -> Self {
        self.flags.push((flag, Value::Path(path)));
        self
    }

    /// A script for a shell that finds the directory by its own place, so that the directory can be moved.
    pub(super) fn script(&self) -> String {
        let mut script =
            "#!/bin/sh\n# Written by portcullis init. Flags of your own: --etcd-flag and --kube-apiserver-flag.\n\
             set -eu\numask 077\nhere=$(CDPATH= cd -- \"$(dirname -- \"$0\")/..\" && pwd)\n"
                .to_owned();
        script.push_str(&self.keeping_last_lines());
        let _ = write!(script, "exec {}", quoted(&self.path.to_string_lossy()));
        for (flag, value) in &self.flags {
            let _ = match value {
                Value::Text(text) => write!(script, " \\\n    --{flag}={}", quoted(text)),
                Value::Path(path) => write!(script, " \\\n    --{flag}=\"$here/{path}\""),
            };
        }
        for flag in &self.more_flags {
            let _ = write!(script, " \\\n    {}", quoted(flag));
        }
        script.push_str(" \\\n    \"$@\"\n");
        script
    }

    /// The part of the script that copies what the program says, and leaves its last lines when it ends. Signals to all processes
    /// of the unit end the program alone, so that nothing that it still says is lost, and no write of it fails.
    fn keeping_last_lines(&self) -> String {
        let Self { name, .. } = self;
        let ended = ended_file(name);
        format!(
            "# For `portcullis init --apply`, which says why a server has ended. Without the directory it starts as well.\n\
             mkdir -p \"$here/run\" 2>/dev/null || :\n\
             rm -f \"$here/run/{name}.last\".* \"$here/{ended}\" \"$here/run/{name}.output\" 2>/dev/null || :\n\
             if mkfifo \"$here/run/{name}.output\" 2>/dev/null; then\n    \
                 last=$(mktemp \"$here/run/{name}.last.XXXXXX\")\n    \
                 (\n        \
                     trap '' HUP INT TERM\n        \
                     tee /dev/fd/3 <\"$here/run/{name}.output\" 3>&1 >&2 | tail -n {KEPT_LINES} >\"$last\"\n        \
                     mv \"$last\" \"$here/{ended}\" 2>/dev/null || :\n    \
                 ) &\n    \
                 exec 2>\"$here/run/{name}.output\"\n    \
                 rm -f \"$here/run/{name}.output\"\n\
             fi\n"
        )
    }

    /// A unit that runs the script of a member's directory. Both programs notify systemd when they are ready.
    pub(super) fn unit(&self, dir: &Path) -> String {
        let Self { name, unit, .. } = self;
        let Unit { description, after, writes, .. } = unit;
        // Programs in a home need what is hidden from the others.
        let homes = ["/home", "/root", "/run/user"];
        let home = if homes.into_iter().any(|home| dir.starts_with(home)) { "" } else { "ProtectHome=yes\n" };
        let dir = dir.display().to_string().replace('%', "%%");
        format!(
            "# Written by portcullis init.\n\
             [Unit]\nDescription={description}\nWants=network-online.target\nAfter=network-online.target {after}\n\n\
             [Service]\nType=notify\nNotifyAccess=main\nExecStart=\"{dir}/start/{name}\"\n\
             TimeoutStartSec=infinity\nRestart=always\nRestartSec=2\nLimitNOFILE=65536\nLimitCORE=0\n\n\
             User=portcullis-store\nGroup=portcullis-store\nUMask=0077\nReadWritePaths=\"{dir}/{writes}\" \"-{dir}/run\"\n\n\
             NoNewPrivileges=yes\nCapabilityBoundingSet=\nAmbientCapabilities=\nProtectSystem=strict\n{home}PrivateTmp=yes\n\
             PrivateDevices=yes\nPrivateUsers=yes\nPrivateIPC=yes\nRemoveIPC=yes\nProtectProc=invisible\n\
             ProtectClock=yes\nProtectControlGroups=yes\nProtectHostname=yes\n\
             ProtectKernelLogs=yes\nProtectKernelModules=yes\nProtectKernelTunables=yes\n\
             RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\nRestrictNamespaces=yes\nRestrictRealtime=yes\n\
             RestrictSUIDSGID=yes\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\nSystemCallArchitectures=native\n\
             SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n\
             SystemCallFilter=setrlimit prlimit64 sched_setaffinity\nSystemCallErrorNumber=EPERM\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        )
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// etcd, reached by TLS with a client certificate of its own CA only.
pub(super) fn etcd(settings: &Settings, member: &Member) -> Program {
    let cluster: Vec<String> = settings.members.iter().map(|one| format!("{}={}", one.name, one.peer_url())).collect();
    let unit = Unit { description: "etcd of the Portcullis store", after: "", writes: "etcd" };
    let program = Program {
        name: "etcd",
        path: settings.etcd.clone(),
        flags: Vec::new(),
        more_flags: settings.etcd_flags.clone(),
        unit,
    };
    program
        .text("name", &member.name)
        .path("data-dir", "etcd")
        .text("listen-client-urls", member.listen_url(member.client_port))
        .text("advertise-client-urls", member.client_url())
        .text("listen-peer-urls", member.listen_url(member.peer_port))
        .text("initial-advertise-peer-urls", member.peer_url())
        .text("initial-cluster", cluster.join(","))
        .text("initial-cluster-token", "portcullis-store")
        // Ignored by a member that has data: the same flags start it the first time and each time after.
        .text("initial-cluster-state", "new")
        .path("cert-file", "pki/etcd.pem")
        .path("key-file", "pki/etcd.pem")
        .path("trusted-ca-file", "pki/etcd-ca.crt")
        .text("client-cert-auth", "true")
        .path("peer-cert-file", "pki/etcd.pem")
        .path("peer-key-file", "pki/etcd.pem")
        .path("peer-trusted-ca-file", "pki/etcd-ca.crt")
        .text("peer-client-cert-auth", "true")
        .text("log-level", "warn")
}

/// kube-apiserver, without anything that only a cluster with nodes needs.
pub(super) fn kube_apiserver(settings: &Settings, member: &Member) -> Program {
    let unit = Unit {
        description: "kube-apiserver of the Portcullis store",
        after: "portcullis-etcd.service",
        writes: "audit",
    };
    let program = Program {
        name: "kube-apiserver",
        path: settings.kube_apiserver.clone(),
        flags: Vec::new(),
        more_flags: settings.kube_apiserver_flags.clone(),
        unit,
    };
    program
        .text("bind-address", member.listen_ip())
        // For pods, of which there are none. Without it a host needs a default route.
        .text("advertise-address", "127.0.0.1")
        .text("secure-port", member.api_port.to_string())
        .path("tls-cert-file", "pki/kube-apiserver.pem")
        .path("tls-private-key-file", "pki/kube-apiserver.pem")
        .path("client-ca-file", "pki/client-ca.crt")
        // Its own member's etcd alone: with several it would take turns, and wait for one that hangs.
        .text("etcd-servers", member.client_url())
        .path("etcd-cafile", "pki/etcd-ca.crt")
        .path("etcd-certfile", "pki/etcd-client.pem")
        .path("etcd-keyfile", "pki/etcd-client.pem")
        .path("encryption-provider-config", "config/encryption.json")
        .text("encryption-provider-config-automatic-reload", "true")
        .path("authentication-config", "config/authentication.json")
        .text("authorization-mode", "RBAC")
        .text("service-account-issuer", "https://kubernetes.default.svc")
        .path("service-account-key-file", "pki/accounts.pub")
        .path("service-account-signing-key-file", "pki/accounts.key")
        // No controller makes service accounts here, and no pod uses one.
        .text("disable-admission-plugins", "ServiceAccount")
        .text("service-cluster-ip-range", "10.96.0.0/16")
        // The service "kubernetes" is for pods.
        .text("endpoint-reconciler-type", "none")
        .path("audit-policy-file", "config/audit-policy.json")
        .path("audit-log-path", "audit/audit.log")
        .text("audit-log-maxsize", "100")
        .text("audit-log-maxbackup", "10")
        .text("profiling", "false")
}
