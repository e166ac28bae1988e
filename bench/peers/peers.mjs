// peers.mjs - who is measured. A peer is a module with:
//
//   name, server, modes    'postgres', 'redis' or 'beanstalkd'; 'single' and, if it has it, 'batch'
//   isSlowToFill           every job put in is a sync
//   findVersion()
//   openQueue(address)     in the measuring process: fill(count) leaves that many jobs waiting, countLeft() tells how
//                          many are not yet finished, close()
//   startWorkers(address, mode, workers)    in a process of its own (workers.mjs): claims and finishes until stop()
//
// What is counted is what the server has: jobs that left the queue between two looks at it.
import * as beanstalkd from './beanstalkd.mjs';
import * as bullmq from './bullmq.mjs';
import * as graphileWorker from './graphile_worker.mjs';
import * as pgBoss from './pg_boss.mjs';
import * as skipLocked from './skip_locked.mjs';

export const peers = [graphileWorker, pgBoss, skipLocked, bullmq, beanstalkd];
