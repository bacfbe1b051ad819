use portcullis_stub_apiserver::StubError;

/// Why nothing was measured. All are faults of the machine or of a program that the benchmark starts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A step of the harness.
    #[error(transparent)]
    Harness(#[from] portcullis_harness::Error),
    /// The stub apiserver.
    #[error("starting the stub apiserver: {0}")]
    Stub(#[from] StubError),
    /// Running one of valgrind's programs.
    #[error("running callgrind_control: {0}")]
    Control(std::io::Error),
    /// callgrind_control said no.
    #[error("callgrind_control {command}: {output}")]
    Refused {
        /// Its arguments.
        command: String,
        /// The output of the command.
        output: String,
    },
    /// Reading a file.
    #[error("reading {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Writing a file.
    #[error("writing {path}: {source}")]
    Write {
        /// Which.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// Envoy would have more connections than the machine permits files, by which it crashes.
    #[error("{needed} open files are needed, and the limit is {most}: raise it (ulimit -Hn), or measure fewer servers")]
    Files {
        /// For the checks of all servers, and what else there is.
        needed: u64,
        /// The limit of this user.
        most: u64,
    },
    /// The kernel refused another priority.
    #[error("lowering the priority of {0}: {1}")]
    Priority(String, std::io::Error),
    /// The kernel refused to keep it on some cores.
    #[error("keeping {0} on some cores: {1}")]
    Cores(String, std::io::Error),
    /// Two parts cannot have cores of their own: `--apart false` has them share.
    #[error("this machine has one core: try --apart false")]
    OneCore,
    /// Envoy's executable does not say what its functions are.
    #[error("{path}: {source}")]
    Executable {
        /// Which.
        path: String,
        /// The cause.
        source: ExecutableError,
    },
    /// The document has no place for the figures.
    #[error("there is no place for the part {0}")]
    NoPart(String),
    /// A request of the load was answered otherwise than the case says.
    #[error("a request was answered {found} instead of {wanted}: {body}")]
    Answer {
        /// The status that came.
        found: u16,
        /// The status that the case is about.
        wanted: u16,
        /// The body that came.
        body: String,
    },
    /// Envoy's configuration does not look as the benchmark knows it.
    #[error("Envoy's configuration has no {0}")]
    Lacks(&'static str),
    /// The control plane did not say what it says when a step is done.
    #[error("the control plane's log has no line with {text:?}")]
    Silent {
        /// The condition that did not come true.
        text: &'static str,
    },
    /// The tree's ratios cannot be read.
    #[error("testenv/bench/ratios.json: {0}")]
    Ratios(serde_json::Error),
    /// A request costs more than it did.
    #[error("dearer than by testenv/bench/ratios.json: {0}")]
    Dearer(String),
    /// An Envoy got no request of clients that connect to all of an address.
    #[error("{0} got no request")]
    Unasked(String),
    /// No request was answered by an edit.
    #[error("an edit had no effect on requests")]
    Unseen,
}

/// Why the functions of an executable are unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutableError {
    /// It cannot be opened.
    #[error("reading it: {0}")]
    Read(#[from] std::io::Error),
    /// It is no ELF file.
    #[error("{0}")]
    Elf(#[from] object::Error),
    /// Its table of functions is not there, or in a form that no linker writes for x86-64.
    #[error("it has no table of functions in .eh_frame_hdr")]
    Functions,
}
