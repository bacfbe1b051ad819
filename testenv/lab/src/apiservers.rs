use std::net::SocketAddr;

use portcullis_harness::certs::{Ca, CertSpec};
use portcullis_harness::control_plane::ControlPlane;
use portcullis_harness::kube::{KubeOptions, RealKube, RequestHeader};
use portcullis_harness::rundir::RunDir;
use portcullis_stub_apiserver::{SharedStore, StubOptions, StubServer, TokenEntry};

use crate::error::LabError;
use crate::users::FRONT_PROXY;
use crate::{IdentityMode, Kube, step};

/// The name under which the gateway verifies the servers.
pub(crate) const SERVER_NAME: &str = "kubernetes.default.svc";

/// A pod to execute in, where the apiservers are real.
pub(crate) const POD: &str = "web";

/// The servers behind the gateway.
pub(crate) enum Apiservers {
    /// Three stubs over one store.
    Stub(Box<Stubs>),
    /// Two kube-apiservers over one etcd.
    Real(Box<RealKube>),
}

/// Stubs and the authorities of their lab.
pub(crate) struct Stubs {
    servers: Vec<StubServer>,
    server_ca: Ca,
    client_ca: Ca,
}

impl Apiservers {
    pub(crate) fn start(kube: Kube, front_proxies: &Ca, run: &RunDir) -> Result<Self, LabError> {
        match kube {
            Kube::Stub => start_stubs(front_proxies),
            Kube::Real => {
                let request_header =
                    RequestHeader { ca: front_proxies.clone(), allowed_names: vec![FRONT_PROXY.to_owned()] };
                let request_header = Some(request_header);
                let options = KubeOptions { apiservers: 2, node: true, request_header, ..KubeOptions::default() };
                let kube = RealKube::start(run, "kube", &options)?;
                kube.run_pod(POD)?;
                Ok(Apiservers::Real(Box::new(kube)))
            }
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Apiservers::Stub(_) => "stub-apiserver",
            Apiservers::Real(_) => "kube-apiserver",
        }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Apiservers::Stub(stubs) => stubs.servers.iter().map(StubServer::address).collect(),
            Apiservers::Real(kube) => kube.apiservers().iter().map(|server| server.address()).collect(),
        }
    }

    pub(crate) fn server_ca(&self) -> &Ca {
        match self {
            Apiservers::Stub(stubs) => &stubs.server_ca,
            Apiservers::Real(kube) => kube.server_ca(),
        }
    }

    /// The CA of users' certificates.
    pub(crate) fn client_ca(&self) -> &Ca {
        match self {
            Apiservers::Stub(stubs) => &stubs.client_ca,
            Apiservers::Real(kube) => kube.client_ca(),
        }
    }

    /// Grants the operator's part: the gateway's own rights, alice's, and a service account. Returns the account's token.
    pub(crate) fn grant(&self, run: &RunDir, plane: &ControlPlane, identity: IdentityMode) -> Result<String, LabError> {
        let Apiservers::Real(kube) = self else { return Ok(ROBOT_TOKEN.to_owned()) };
        step("granting the gateway what `portcullis rbac` prints");
        let rbac = run.write("rbac.yaml", plane.rbac(identity.reviewer())?)?;
        let admin = |args: &[&str]| kube.admin_kubectl()?.args(args).run_ok();
        kube.admin_kubectl()?.args(["apply", "-f"]).args([&rbac]).run_ok()?;
        // view and edit themselves are put together by a controller, which does not run here.
        let bind = |name: &str, part: &str, subject: &str| {
            admin(&["create", "rolebinding", name, &format!("--clusterrole=system:aggregate-to-{part}"), subject])
        };
        bind("dev-view", "view", "--group=dev")?;
        bind("dev-edit", "edit", "--group=dev")?;
        admin(&["create", "serviceaccount", "robot"])?;
        bind("robot-view", "view", "--serviceaccount=default:robot")?;
        Ok(admin(&["create", "token", "robot", "--duration=24h"])?.trim().to_owned())
    }
}

/// Known to the stubs of a lab on loopback only.
const ROBOT_TOKEN: &str = "robot-of-the-lab";

fn start_stubs(front_proxies: &Ca) -> Result<Apiservers, LabError> {
    let (server_ca, client_ca) = (Ca::new("lab servers")?, Ca::new("lab users")?);
    let store = SharedStore::default();
    let mut servers = Vec::new();
    for index in 0..3 {
        let identity = server_ca.issue(&CertSpec::server("kube-apiserver", [SERVER_NAME]))?;
        let robot = TokenEntry {
            user: "system:serviceaccount:default:robot".to_owned(),
            groups: vec!["system:serviceaccounts".to_owned(), "system:serviceaccounts:default".to_owned()],
            ..TokenEntry::default()
        };
        let mut options =
            StubOptions::new(identity.pem(), identity.key_pem()).client_ca(client_ca.pem()).token(ROBOT_TOKEN, robot);
        options.store = store.clone();
        options.requestheader_ca = Some(front_proxies.pem());
        options.requestheader_names = vec![FRONT_PROXY.to_owned()];
        options.impersonators = vec!["portcullis".to_owned()];
        options.forbidden_users = vec!["bob".to_owned()];
        options.name = format!("stub-{index}");
        servers.push(StubServer::start(options)?);
    }
    Ok(Apiservers::Stub(Box::new(Stubs { servers, server_ca, client_ca })))
}
