//! Starts the servers that are there, each on ports of its own, and stops them.

use std::error::Error;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::output::about;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server in a process of its own, which ends with this.
pub(super) struct Program {
    child: Child,
    pub(super) ports: Vec<u16>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // nginx ends its workers on SIGTERM alone.
        let id = self.child.id().to_string();
        let is_asked = Command::new("kill").arg(&id).status().is_ok_and(|status| status.success());
        let until = Instant::now() + Duration::from_secs(2);
        while is_asked && Instant::now() < until && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Where a program is, if it is on this machine.
fn found(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// A port that was free a moment ago.
fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts `name` with its arguments and waits until it listens. What is missing, and where to get it, is the error.
fn start(name: &str, package: &str, arguments: &[String], ports: Vec<u16>) -> Outcome<Program> {
    let path = found(name).ok_or_else(|| format!("{name} is not on this machine: {package}"))?;
    let child = Command::new(path).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let mut program = Program { child, ports };
    let until = Instant::now() + PATIENCE;
    for port in program.ports.clone() {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = program.child.try_wait()? {
                return Err(format!("{name} has ended before it listened: {status}").into());
            }
            if Instant::now() > until {
                return Err(format!("{name} does not listen on port {port}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(program)
}

/// Writes a configuration with its blanks filled in.
fn write(path: &Path, text: &str, blanks: &[(&str, String)]) -> Outcome<()> {
    let filled = blanks.iter().fold(text.to_owned(), |text, (blank, value)| text.replace(blank, value));
    Ok(std::fs::write(path, filled).map_err(about(path))?)
}

/// nginx in front of an application on port `app`.
///
/// # Errors
///
/// If it is not there or does not start.
pub(super) fn nginx(folder: &Path, app: u16) -> Outcome<Program> {
    let port = free_port()?;
    let path = folder.join("nginx.conf");
    let blanks =
        [("FOLDER", folder.display().to_string()), ("PORT", port.to_string()), ("APP", app.to_string())];
    write(&path, include_str!("nginx.conf"), &blanks)?;
    let arguments =
        ["-p", &folder.display().to_string(), "-c", &path.display().to_string(), "-g", "daemon off;"];
    start("nginx", "apt-get install nginx-light", &arguments.map(str::to_owned), vec![port])
}

/// haproxy in front of an application on port `app`; the second port counts what it admits alone.
///
/// # Errors
///
/// If it is not there or does not start.
pub(super) fn haproxy(folder: &Path, app: u16) -> Outcome<Program> {
    let ports = vec![free_port()?, free_port()?];
    let path = folder.join("haproxy.cfg");
    let blanks = [("PORT1", ports[0].to_string()), ("PORT2", ports[1].to_string()), ("APP", app.to_string())];
    write(&path, include_str!("haproxy.cfg"), &blanks)?;
    let arguments = ["-db", "-f", &path.display().to_string()];
    start("haproxy", "apt-get install haproxy", &arguments.map(str::to_owned), ports)
}

/// A fixed window in Node.
///
/// # Errors
///
/// If Node is not there or does not start.
pub(super) fn node(folder: &Path) -> Outcome<Program> {
    let port = free_port()?;
    let path = folder.join("limiter.mjs");
    write(&path, include_str!("limiter.mjs"), &[])?;
    let arguments = [path.display().to_string(), port.to_string()];
    start("node", "https://nodejs.org or apt-get install nodejs", &arguments, vec![port])
}
