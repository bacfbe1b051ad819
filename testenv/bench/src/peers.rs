//! HAProxy and nginx in front of apiservers: TLS and HTTP/2 for clients, two identity headers of the client's certificate, and
//! nothing else. HAProxy can also pass connections on as they are.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use portcullis_harness::certs::{Ca, Identity};
use portcullis_harness::process::{Process, Spec};
use portcullis_harness::{Error, deps, ports, write_private};

use crate::error::BenchError;

const STARTS: Duration = Duration::from_secs(20);

/// Another proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// HTTP/2 on both sides.
    Haproxy,
    /// HTTP/2 for clients, HTTP/1.1 to servers: it has no other.
    Nginx,
}

/// The certificates of a proxy.
pub(crate) struct Files<'a> {
    pub(crate) serving: &'a Identity,
    pub(crate) client_ca: &'a Ca,
    pub(crate) gateway: &'a Identity,
    pub(crate) server_ca: &'a Ca,
}

/// A proxy with its address. Ends with this value.
pub(crate) struct RunningPeer {
    pub(crate) address: SocketAddr,
    process: Process,
}

impl RunningPeer {
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn start(spec: Spec, address: SocketAddr) -> Result<Self, BenchError> {
        let libraries = deps::peers().map_err(Error::from)?.libraries;
        let process = Process::start(spec.env("LD_LIBRARY_PATH", libraries))?;
        process.wait_listening(address, STARTS)?;
        Ok(RunningPeer { address, process })
    }
}

impl Peer {
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Peer::Haproxy => "haproxy",
            Peer::Nginx => "nginx",
        }
    }

    /// Starts it with one thread in front of servers.
    pub(crate) fn start(
        self,
        dir: &Path,
        files: &Files<'_>,
        servers: &[SocketAddr],
    ) -> Result<RunningPeer, BenchError> {
        let address = ports::free_address()?;
        files.serving.write_pem(&dir.join("serving.crt"), &dir.join("serving.key"))?;
        files.gateway.write_pem(&dir.join("gateway.crt"), &dir.join("gateway.key"))?;
        // HAProxy wants both in one file.
        for (name, identity) in [("serving.pem", files.serving), ("gateway.pem", files.gateway)] {
            write_private(&dir.join(name), format!("{}{}", identity.pem(), identity.key_pem()).as_bytes())?;
        }
        files.client_ca.write_pem(&dir.join("clients.crt"))?;
        files.server_ca.write_pem(&dir.join("servers.crt"))?;
        let programs = deps::peers().map_err(Error::from)?;
        let config = dir.join("config");
        let (text, spec) = match self {
            Peer::Haproxy => (haproxy(dir, address, servers), Spec::new("haproxy", programs.haproxy, dir).arg("-f")),
            Peer::Nginx => {
                let spec = Spec::new("nginx", programs.nginx, dir).arg("-p").arg(dir).args(["-e", "stderr", "-c"]);
                (nginx(dir, address, servers), spec)
            }
        };
        write_private(&config, text.as_bytes())?;
        RunningPeer::start(spec.arg(config), address)
    }
}

/// HAProxy that passes connections on, each to one server for as long as it lasts.
pub(crate) fn layer4(dir: &Path, servers: &[SocketAddr]) -> Result<RunningPeer, BenchError> {
    let address = ports::free_address()?;
    let lines: String = servers
        .iter()
        .enumerate()
        .map(|(at, server)| {
            format!("  server s{at} {server} check inter 1s fall 2 rise 2 on-marked-down shutdown-sessions\n")
        })
        .collect();
    let text = format!(
        "global\n  nbthread 2\ndefaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n\
         frontend clients\n  bind {address}\n  default_backend apiservers\n\
         backend apiservers\n  balance leastconn\n{lines}"
    );
    let config = dir.join("layer4");
    write_private(&config, text.as_bytes())?;
    let program = deps::peers().map_err(Error::from)?.haproxy;
    RunningPeer::start(Spec::new("haproxy", program, dir).arg("-f").arg(config), address)
}

fn haproxy(dir: &Path, address: SocketAddr, servers: &[SocketAddr]) -> String {
    let dir = dir.display();
    let tls = format!(
        "ssl verify required ca-file {dir}/servers.crt verifyhost kubernetes sni str(kubernetes) crt {dir}/gateway.pem alpn h2"
    );
    let lines: String =
        servers.iter().enumerate().map(|(at, server)| format!("  server s{at} {server} {tls}\n")).collect();
    format!(
        "global\n  nbthread 1\n  maxconn 8000\n\
         defaults\n  mode http\n  timeout connect 5s\n  timeout http-request 30s\n  timeout client 1h\n  timeout server 1h\n\
         frontend clients\n  bind {address} ssl crt {dir}/serving.pem ca-file {dir}/clients.crt verify optional alpn h2,http/1.1\n\
         \x20 http-request set-header Impersonate-User %[ssl_c_s_dn(CN)]\n\
         \x20 http-request set-header Impersonate-Group %[ssl_c_s_dn(O)]\n\
         \x20 default_backend apiservers\n\
         backend apiservers\n  http-reuse always\n{lines}"
    )
}

fn nginx(dir: &Path, address: SocketAddr, servers: &[SocketAddr]) -> String {
    let dir = dir.display();
    let lines: String = servers.iter().map(|server| format!("    server {server};\n")).collect();
    let user = if rustix::process::getuid().is_root() { "user root;\n" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {dir}/{kind};\n"))
        .concat();
    // Without a master, all that it does is one process's.
    format!(
        "{user}daemon off;\nmaster_process off;\nworker_processes 1;\npid {dir}/pid;\n\
         events {{ worker_connections 16000; }}\n\
         http {{\n  access_log off;\n  postpone_output 0;\n{temporary}\
         \x20 map $ssl_client_s_dn $certificate_user {{ ~CN=([^,]+) $1; }}\n\
         \x20 map $ssl_client_s_dn $certificate_group {{ ~O=([^,]+) $1; }}\n\
         \x20 upstream apiservers {{\n{lines}    keepalive 256;\n    keepalive_requests 100000000;\n  }}\n\
         \x20 server {{\n    listen {address} ssl http2;\n    keepalive_requests 100000000;\n    keepalive_timeout 1h;\n\
         \x20   http2_max_concurrent_streams 100;\n\
         \x20   ssl_certificate {dir}/serving.crt;\n    ssl_certificate_key {dir}/serving.key;\n\
         \x20   ssl_client_certificate {dir}/clients.crt;\n    ssl_verify_client optional;\n    ssl_protocols TLSv1.2 TLSv1.3;\n\
         \x20   location / {{\n      proxy_pass https://apiservers;\n      proxy_http_version 1.1;\n      proxy_buffering off;\n\
         \x20     proxy_read_timeout 1h;\n      proxy_set_header Connection \"\";\n      proxy_set_header Host $host;\n\
         \x20     proxy_set_header Impersonate-User $certificate_user;\n\
         \x20     proxy_set_header Impersonate-Group $certificate_group;\n\
         \x20     proxy_ssl_certificate {dir}/gateway.crt;\n      proxy_ssl_certificate_key {dir}/gateway.key;\n\
         \x20     proxy_ssl_trusted_certificate {dir}/servers.crt;\n      proxy_ssl_verify on;\n\
         \x20     proxy_ssl_name kubernetes;\n      proxy_ssl_server_name on;\n    }}\n  }}\n}}\n"
    )
}
