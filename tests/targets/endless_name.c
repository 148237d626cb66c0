/* A function whose C++ name has 2^60 letters, and one whose name is no text: it waits in the one, called by the other. */

#include <stdio.h>
#include <unistd.h>

void endless(void) __asm__("_Z1f1AIS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IiiES0_ES1_ES2_ES3_ES4_ES5_ES6_ES7_ES8_ES9_ESA_ESB_ESC_ESD_ESE_ESF_ESG_ESH_ESI_ESJ_ESK_ESL_ESM_ESN_ESO_ESP_ESQ_ESR_ESS_EST_ESU_ESV_ESW_ESX_ESY_ESZ_ES10_ES11_ES12_ES13_ES14_ES15_ES16_ES17_ES18_ES19_ES1A_ES1B_ES1C_ES1D_ES1E_ES1F_ES1G_ES1H_ES1I_ES1J_ES1K_ES1L_ES1M_E");
void no_text(void) __asm__("no\xff\xfetext");

__attribute__((noinline)) void endless(void)
{
    pause();
    __asm__ volatile("");
}

__attribute__((noinline)) void no_text(void)
{
    endless();
    __asm__ volatile("");
}

int main(void)
{
    puts("READY");
    fflush(stdout);
    no_text();
    return 0;
}
