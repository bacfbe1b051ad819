//! The stub as a process of its own. Prints one line of JSON with its addresses when it listens.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use portcullis_stub_apiserver::{Anonymous, StubError, StubOptions, StubServer, TokenEntry};
use serde_json::json;

/// A stand-in for kube-apiserver in tests.
#[derive(Debug, Parser)]
struct Args {
    /// The listening address; port 0 = any free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
    /// The address of the plain-HTTP admin page.
    #[arg(long)]
    admin_address: Option<SocketAddr>,
    /// The server's certificate chain, PEM.
    #[arg(long)]
    tls_cert: PathBuf,
    /// Its private key, PEM.
    #[arg(long)]
    tls_key: PathBuf,
    /// Authorities of users' certificates, PEM.
    #[arg(long)]
    client_ca: Option<PathBuf>,
    /// Authorities of front proxies' certificates, PEM.
    #[arg(long)]
    requestheader_client_ca: Option<PathBuf>,
    /// Allowed common names of front proxies; none = any.
    #[arg(long, value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Access without a credential.
    #[arg(long, value_enum, default_value = "on")]
    anonymous: Anonymous,
    /// JSON file: token -> {user, groups, uid, extra, audiences}.
    #[arg(long)]
    tokens: Option<PathBuf>,
    /// Users who may impersonate, besides system:masters.
    #[arg(long, value_delimiter = ',')]
    impersonators: Vec<String>,
    /// Users who may do nothing.
    #[arg(long, value_delimiter = ',')]
    forbidden_users: Vec<String>,
    /// How many connections may wait to be taken.
    #[arg(long, default_value_t = 1024)]
    backlog: u32,
    /// Shown in /version and in the header x-stub-name.
    #[arg(long, default_value = "stub")]
    name: String,
}

fn main() -> ExitCode {
    let server = match options(Args::parse()).and_then(StubServer::start) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("stub-apiserver: {error}");
            return ExitCode::FAILURE;
        }
    };
    let line = json!({"address": server.address(), "adminAddress": server.admin_address()});
    let mut out = std::io::stdout();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        return ExitCode::FAILURE;
    }
    // Until a signal ends the process.
    loop {
        std::thread::park();
    }
}

fn options(args: Args) -> Result<StubOptions, StubError> {
    let optional = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
    Ok(StubOptions {
        address: args.address,
        admin_address: args.admin_address,
        client_ca: optional(&args.client_ca)?,
        requestheader_ca: optional(&args.requestheader_client_ca)?,
        requestheader_names: args.requestheader_allowed_names,
        anonymous: args.anonymous,
        tokens: args.tokens.as_deref().map(tokens).transpose()?.unwrap_or_default(),
        impersonators: args.impersonators,
        forbidden_users: args.forbidden_users,
        backlog: args.backlog,
        name: args.name,
        ..StubOptions::new(read(&args.tls_cert)?, read(&args.tls_key)?)
    })
}

fn tokens(path: &Path) -> Result<BTreeMap<String, TokenEntry>, StubError> {
    // The parser's own message could show a token.
    let bad =
        |_| StubError::File { path: path.display().to_string(), reason: "not a JSON object of tokens".to_owned() };
    serde_json::from_str(&read(path)?).map_err(bad)
}

fn read(path: &Path) -> Result<String, StubError> {
    let failed =
        |error: std::io::Error| StubError::File { path: path.display().to_string(), reason: error.to_string() };
    std::fs::read_to_string(path).map_err(failed)
}
