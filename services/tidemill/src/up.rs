//! All services on this machine until a signal.

use anyhow::Context as _;
use tidemill_loader::Scope;
use tidemill_service::Admin;

use crate::arguments::Up;
use crate::exit::Done;
use crate::output;
use crate::roles::Roles;
use crate::session::{self, Need, Session};
use crate::stops::stop_signal;

pub(crate) fn run(args: Up) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "info")?;
    tidemill_telemetry::install();
    session::block_on(async {
        let admin = Admin::bind(&config.service.admin)
            .await
            .with_context(|| format!("admin listener {}", config.service.admin))?;
        let session = Session::open(&args.place, config, Need::Alone).await?;
        let grace = session.context.config.service.shutdown_grace;
        let mut roles = Roles::start(&session.context, Scope::All);
        admin.set_ready(true);
        output::note(&format!("broker {}", session.url()));
        output::note(&format!("admin http://{} (/livez /readyz /metrics)", admin.address()));
        output::note("ready; announce checkpoints with `tidemill announce`, follow with `tidemill watch`, Ctrl-C ends");
        let failed = tokio::select! {
            error = roles.failed() => Some(error),
            _ = stop_signal() => None,
        };
        admin.set_ready(false);
        match failed {
            Some(_) => roles.drain(grace).await,
            None => roles.drain_after_signal(grace).await,
        }
        session.close().await;
        failed.map_or(Ok(Done::Valid), Err)
    })
}
